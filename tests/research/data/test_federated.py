"""What may be handed over as data, how it is kept, and what is said when it cannot be used."""

import numpy as np
import pytest
from scipy import sparse

import fedsparse as fs

from_clients = fs.FederatedData.from_clients
from_table = fs.FederatedData.from_table


def ragged(dtype=np.float64, counts=(2, 1, 4), width=3):
    """Clients of different size whose every entry is another number, about half of them zero."""
    random = np.random.default_rng(5)
    clients = []
    for count in counts:
        features = random.standard_normal((count, width)).astype(dtype)
        features[random.random((count, width)) < 0.5] = 0
        clients.append((features, random.standard_normal(count)))
    return clients


def as_csr(clients):
    return [(sparse.csr_array(features), targets) for features, targets in clients]


def dense_rows(data):
    return data.features.toarray() if data.is_sparse else data.features


def untidy_csr():
    """[[0, 5, 2], [1, 0, 4]] with unsorted indices and with 5 stored as 2 + 3."""
    stored, indices = np.array([2.0, 2.0, 3.0, 4.0, 1.0]), np.array([2, 1, 1, 2, 0])
    return sparse.csr_array((stored, indices, np.array([0, 3, 5])), shape=(2, 3))


STORAGES = [pytest.param(lambda clients: clients, id="dense"), pytest.param(as_csr, id="csr")]


class TestFromClients:
    @pytest.mark.parametrize("convert", STORAGES)
    @pytest.mark.parametrize("dtype", [np.float32, np.float64])
    def test_keeps_all_rows_client_after_client_in_the_type_given(self, convert, dtype):
        clients = ragged(dtype)
        data = from_clients(convert(clients))
        assert data.features.dtype == dtype
        np.testing.assert_array_equal(dense_rows(data), np.vstack([Z for Z, _ in clients]))
        np.testing.assert_array_equal(data.targets, np.concatenate([y for _, y in clients]))
        assert data.pointer.tolist() == [0, 2, 3, 7]
        assert data.counts.tolist() == [2, 1, 4]
        assert (len(data), data.samples, data.width) == (3, 7, 3)
        assert data.identities.tolist() == [0, 1, 2]

    def test_list_numbers_the_clients(self):
        assert from_clients(ragged()).names == ("client 0", "client 1", "client 2")

    def test_mapping_names_the_clients(self):
        data = from_clients({"Bern": ([[1.0]], [1.0]), 7: ([[2.0]], [2.0])})
        assert data.names == ("Bern", "7")
        assert data.features.tolist() == [[1.0], [2.0]]

    def test_any_iterable_of_pairs_will_do(self):
        assert len(from_clients(tuple(ragged()))) == 3
        assert len(from_clients(pair for pair in ragged())) == 3
        assert len(from_clients([list(pair) for pair in ragged()])) == 3

    def test_a_column_of_targets_is_taken_as_a_vector(self):
        assert from_clients([(np.eye(2), [[1.0], [2.0]])]).targets.tolist() == [1.0, 2.0]

    @pytest.mark.parametrize("dtype", [np.int8, np.int64, np.uint16, np.uint64, np.bool_])
    @pytest.mark.parametrize("convert", STORAGES)
    def test_integers_and_booleans_become_float64(self, dtype, convert):
        features = np.array([[1, 0], [0, 1]], dtype=dtype)
        data = from_clients(convert([(features, [1, 2])]))
        assert data.features.dtype == np.float64
        assert dense_rows(data).tolist() == [[1.0, 0.0], [0.0, 1.0]]

    def test_half_floats_become_float32(self):
        data = from_clients([(np.array([[0.1, 2.0]], dtype=np.float16), [1])])
        assert data.features.dtype == np.float32
        assert data.features.tolist() == [[float(np.float16(0.1)), 2.0]]

    @pytest.mark.parametrize("dtype", [np.longdouble, np.dtype(">f8"), np.dtype(">f4"), object])
    def test_other_real_types_become_float64_or_float32(self, dtype):
        data = from_clients([(np.array([[0.5, 2.0]]).astype(dtype), [1.0])])
        assert data.features.dtype in (np.float32, np.float64)
        assert data.features.dtype.isnative
        assert data.features.tolist() == [[0.5, 2.0]]
        assert np.isfinite(fs.run(fs.FedAvg(), data, rounds=1, threads=1).coef).all()

    @pytest.mark.parametrize("convert", STORAGES)
    def test_float32_and_float64_clients_meet_in_float64(self, convert):
        clients = [*ragged(np.float32)[:1], *ragged(np.float64)[1:]]
        data = from_clients(convert(clients))
        assert data.features.dtype == np.float64
        np.testing.assert_array_equal(dense_rows(data), np.vstack([Z for Z, _ in clients]))

    def test_dense_and_csr_clients_meet_in_csr(self):
        clients = ragged()
        data = from_clients([clients[0], *as_csr(clients[1:])])
        assert data.is_sparse
        np.testing.assert_array_equal(dense_rows(data), np.vstack([Z for Z, _ in clients]))

    @pytest.mark.parametrize(
        "kind", [sparse.coo_array, sparse.csc_array, sparse.csr_matrix, sparse.lil_matrix]
    )
    def test_any_scipy_sparse_matrix_becomes_csr(self, kind):
        clients = ragged()
        data = from_clients([(kind(Z), y) for Z, y in clients])
        assert isinstance(data.features, sparse.csr_array)
        np.testing.assert_array_equal(dense_rows(data), np.vstack([Z for Z, _ in clients]))

    def test_fortran_ordered_and_strided_arrays_become_c_ordered(self):
        features = np.arange(24.0).reshape(4, 6)
        for given in (np.asfortranarray(features), features[::2, ::-1]):
            data = from_clients([(given, np.ones(len(given)))])
            assert data.features.flags.c_contiguous
            np.testing.assert_array_equal(data.features, given)

    @pytest.mark.parametrize("with_others", [False, True])
    @pytest.mark.parametrize("kind", [sparse.csr_array, sparse.csr_matrix])
    def test_untidy_csr_is_made_canonical_without_touching_the_callers(self, with_others, kind):
        given = kind(untidy_csr())
        before = [part.copy() for part in (given.data, given.indices, given.indptr)]
        others = [(np.eye(3), np.ones(3))] if with_others else []
        data = from_clients([(given, [1.0, 2.0]), *others])
        assert data.features.has_canonical_format
        for first, last in zip(data.features.indptr, data.features.indptr[1:], strict=False):
            assert (np.diff(data.features.indices[first:last]) > 0).all()
        assert dense_rows(data)[:2].tolist() == [[0.0, 5.0, 2.0], [1.0, 0.0, 4.0]]
        for part, old in zip((given.data, given.indices, given.indptr), before, strict=True):
            np.testing.assert_array_equal(part, old)

    def test_a_matrix_wrongly_claiming_to_be_canonical_is_looked_at(self):
        given = untidy_csr()
        given.has_sorted_indices = given.has_canonical_format = True
        data = from_clients([(given, [1.0, 2.0])])
        assert data.features.indices.tolist() == [1, 2, 0, 2]

    @pytest.mark.parametrize("index_type", [np.int32, np.int64])
    def test_csr_indices_of_either_type_give_the_same_run(self, index_type):
        features = sparse.csr_array(np.eye(3))
        features.indices = features.indices.astype(index_type)
        features.indptr = features.indptr.astype(index_type)
        data = from_clients([(features, [1.0, 2.0, 3.0])])
        coef = fs.run(fs.FedAvg(local_steps=3), data, rounds=3, threads=1).coef
        plain = from_clients([(np.eye(3), [1.0, 2.0, 3.0])])
        expected = fs.run(fs.FedAvg(local_steps=3), plain, rounds=3, threads=1).coef
        np.testing.assert_allclose(coef, expected, atol=1e-12)


class TestFromTable:
    @pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, sparse.coo_array])
    def test_splits_rows_by_site_and_keeps_their_order(self, convert):
        features = np.arange(10.0).reshape(5, 2)
        data = from_table(convert(features), [10, 11, 12, 13, 14], ["b", "a", "b", "c", "a"])
        assert data.names == ("a", "b", "c")
        assert data.pointer.tolist() == [0, 2, 4, 5]
        assert data.targets.tolist() == [11, 14, 10, 12, 13]
        np.testing.assert_array_equal(dense_rows(data), features[[1, 4, 0, 2, 3]])

    def test_numbers_as_sites_are_sorted_as_numbers(self):
        assert from_table(np.eye(3), [1, 2, 3], [10, 9, 100]).names == ("9", "10", "100")

    def test_gives_the_same_data_as_the_clients_by_themselves(self):
        clients = ragged()
        sites = np.repeat(["x", "y", "z"], [len(y) for _, y in clients])
        table = from_table(
            np.vstack([Z for Z, _ in clients]), np.concatenate([y for _, y in clients]), sites
        )
        expected = from_clients(clients)
        np.testing.assert_array_equal(table.features, expected.features)
        np.testing.assert_array_equal(table.targets, expected.targets)
        np.testing.assert_array_equal(table.pointer, expected.pointer)

    @pytest.mark.parametrize(
        ("sites", "row"),
        [
            (["a", None, "b"], 1),
            ([1.0, 2.0, np.nan], 2),
            (np.array(["a", "b", np.nan], dtype=object), 2),
        ],
    )
    def test_missing_site_labels_are_refused(self, sites, row):
        with pytest.raises(fs.DataError, match=f"row {row}.*site label"):
            from_table(np.eye(3), [1, 2, 3], sites)

    @pytest.mark.parametrize("sites", [["a", "b"], "a", [["a", "b", "c"]]])
    def test_needs_one_site_label_per_row(self, sites):
        with pytest.raises(fs.DataError, match=r"3 rows.*site labels"):
            from_table(np.eye(3), [1, 2, 3], sites)

    def test_needs_columns(self):
        with pytest.raises(fs.DataError, match="no columns"):
            from_table(np.empty((2, 0)), [1, 2], ["a", "b"])

    def test_needs_rows(self):
        with pytest.raises(fs.DataError, match="no rows"):
            from_table(np.empty((0, 2)), [], [])

    def test_names_the_site_of_a_bad_value(self):
        features = np.ones((3, 2))
        features[2, 1] = np.nan
        with pytest.raises(fs.DataError, match="a, row 0, column 1 is nan"):
            from_table(features, [1, 2, 3], ["b", "b", "a"])


class TestViews:
    @pytest.mark.parametrize("convert", STORAGES)
    def test_view_of_a_client_has_its_rows_name_and_identity(self, convert):
        clients = ragged()
        data = from_clients(convert(clients))
        for index, (features, targets) in enumerate(clients):
            view = data.client(index)
            np.testing.assert_array_equal(dense_rows(view), features)
            np.testing.assert_array_equal(view.targets, targets)
            assert view.names == (f"client {index}",)
            assert view.identities.tolist() == [index]
            assert view.pointer.tolist() == [0, len(targets)]
            assert (len(view), view.samples, view.width) == (1, len(targets), 3)
            assert view.is_sparse == data.is_sparse

    def test_view_shares_memory_with_the_whole(self):
        data = from_clients(ragged())
        assert np.shares_memory(data.client(2).features, data.features)
        assert np.shares_memory(data.client(2).targets, data.targets)

    def test_view_of_csr_shares_values_and_indices(self):
        data = from_clients(as_csr(ragged()))
        view = data.client(2).features
        assert np.shares_memory(view.data, data.features.data)
        assert np.shares_memory(view.indices, data.features.indices)
        assert view.has_canonical_format
        np.testing.assert_allclose(view @ np.arange(3.0), view.toarray() @ np.arange(3.0))

    @pytest.mark.parametrize("convert", STORAGES)
    def test_view_of_a_view_keeps_the_identity(self, convert):
        view = from_clients(convert(ragged())).client(1).client(0)
        assert view.identities.tolist() == [1]
        assert view.names == ("client 1",)

    @pytest.mark.parametrize("index", [3, -4])
    def test_there_is_no_client_beyond_the_last_or_before_the_first(self, index):
        data = from_clients(ragged())
        with pytest.raises(IndexError):
            data.client(index)

    @pytest.mark.parametrize("convert", STORAGES)
    def test_clients_count_from_the_end_as_lists_do(self, convert):
        data = from_clients(convert(ragged()))
        assert data.client(-1).names == ("client 2",)
        np.testing.assert_array_equal(dense_rows(data.client(-1)), dense_rows(data.client(2)))

    @pytest.mark.parametrize("convert", STORAGES)
    def test_pooled_is_one_client_with_all_rows(self, convert):
        data = from_clients(convert(ragged()))
        pooled = data.pooled()
        assert len(pooled) == 1
        assert pooled.counts.tolist() == [7]
        assert pooled.identities.tolist() == [0]
        np.testing.assert_array_equal(dense_rows(pooled), dense_rows(data))
        np.testing.assert_array_equal(pooled.targets, data.targets)
        shared = (pooled.features, data.features)
        if data.is_sparse:
            shared = tuple(matrix.data for matrix in shared)
        assert np.shares_memory(*shared)

    @pytest.mark.parametrize("convert", STORAGES)
    def test_owner_of_a_row_is_found(self, convert):
        data = from_clients(convert(ragged()))
        owners = [data.owner_of(row) for row in range(data.samples)]
        assert owners == [
            (f"client {i}", row) for i, count in enumerate((2, 1, 4)) for row in range(count)
        ]

    def test_repr_tells_size_and_storage(self):
        assert repr(from_clients(as_csr(ragged(np.float32)))) == (
            "FederatedData(3 clients, 7 rows, 3 features, CSR float32)"
        )


class TestCallersArrays:
    @pytest.mark.parametrize("convert", STORAGES)
    @pytest.mark.parametrize("count", [1, 3])
    def test_are_not_changed_by_a_run(self, convert, count):
        clients = convert(ragged()[:count])
        before = [(Z.toarray() if sparse.issparse(Z) else Z.copy(), y.copy()) for Z, y in clients]
        data = from_clients(clients)
        for algorithm in (fs.FedHT(2), fs.FedIterHT(2, batch_size=1, variance_reduction=True)):
            fs.run(algorithm, data, rounds=2, threads=1)
        for (features, targets), (old_features, old_targets) in zip(clients, before, strict=True):
            now = features.toarray() if sparse.issparse(features) else features
            np.testing.assert_array_equal(now, old_features)
            np.testing.assert_array_equal(targets, old_targets)

    def test_may_be_read_only(self):
        clients = ragged()
        for features, targets in clients:
            features.flags.writeable = targets.flags.writeable = False
        for given in (clients, clients[:1], as_csr(clients), as_csr(clients)[:1]):
            for part in given:
                if sparse.issparse(part[0]):
                    part[0].data.flags.writeable = False
                    part[0].indices.flags.writeable = False
            fs.run(fs.FedIterHT(2, local_steps=2), from_clients(given), rounds=2, threads=1)


class TestRefusals:
    @pytest.mark.parametrize("clients", [[], {}, ()])
    def test_no_clients(self, clients):
        with pytest.raises(fs.DataError, match="there are no clients"):
            from_clients(clients)

    @pytest.mark.parametrize("convert", STORAGES)
    @pytest.mark.parametrize("place", [0, 1, 2])
    def test_a_client_of_another_width(self, convert, place):
        clients = ragged()
        clients[place] = (np.ones((2, 5)), [1, 2])
        expected = f"client {place} has 5 columns, the others have 3"
        with pytest.raises(fs.DataError, match=expected):
            from_clients(convert(clients))

    def test_no_columns(self):
        with pytest.raises(fs.DataError, match="no columns"):
            from_clients([(np.empty((2, 0)), [1, 2])])

    @pytest.mark.parametrize("features", [np.empty((0, 3)), sparse.csr_array((0, 3))])
    def test_an_empty_client(self, features):
        with pytest.raises(fs.DataError, match="lab-2 has no rows"):
            from_clients({"lab-1": (np.ones((1, 3)), [1]), "lab-2": (features, [])})

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    @pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
    def test_features_that_are_not_finite(self, value, dtype):
        features = np.ones((3, 4), dtype=dtype)
        features[2, 1] = value
        with pytest.raises(fs.DataError, match=f"lab-2, row 2, column 1 is {value}"):
            from_clients({"lab-1": (np.ones((5, 4)), np.ones(5)), "lab-2": (features, np.ones(3))})

    @pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
    def test_csr_features_that_are_not_finite(self, value):
        features = np.zeros((4, 5))
        features[0, 4], features[3, 2] = 1.0, value  # rows 1 and 2 are empty
        clients = {"lab-1": (np.zeros((2, 5)), [1, 2]), "lab-2": (features, [1, 2, 3, 4])}
        as_matrices = {name: (sparse.csr_array(Z), y) for name, (Z, y) in clients.items()}
        with pytest.raises(fs.DataError, match=f"lab-2, row 3, column 2 is {value}"):
            from_clients(as_matrices)

    def test_nan_far_down_a_long_table(self):
        features = np.zeros((10_000, 2), dtype=np.float32)
        features[9_000, 1] = np.nan
        with pytest.raises(fs.DataError, match="client 0, row 9000, column 1 is nan"):
            from_clients([(features, np.zeros(10_000))])

    @pytest.mark.parametrize("convert", STORAGES)
    @pytest.mark.parametrize("value", [np.nan, np.inf])
    def test_targets_that_are_not_finite(self, value, convert):
        clients = ragged()
        clients[2][1][3] = value
        with pytest.raises(fs.DataError, match=f"client 2, row 3: the target is {value}"):
            from_clients(convert(clients))

    def test_missing_features(self):
        with pytest.raises(fs.DataError, match="client 0, row 0, column 1 is nan"):
            from_clients([([[1.0, None]], [1.0])])

    @pytest.mark.parametrize("missing", [None, np.nan])
    def test_missing_labels(self, missing):
        labels = np.array(["yes", missing], dtype=object)
        with pytest.raises(fs.DataError, match=r"client 0, row 1.*missing"):
            from_clients([(np.eye(2), labels)])

    @pytest.mark.parametrize("features", [[1.0, 2.0], 3.0, np.ones((2, 2, 2)), "text"])
    def test_features_of_wrong_dimension(self, features):
        with pytest.raises(fs.DataError, match=r"features of client 0 have \d dimension"):
            from_clients([(features, [1.0, 2.0])])

    def test_sparse_features_of_wrong_dimension(self):
        with pytest.raises(fs.DataError, match=r"features of client 0 have 1 dimension"):
            from_clients([(sparse.coo_array(np.array([1.0, 2.0])), [1.0, 2.0])])

    def test_rows_of_different_length(self):
        with pytest.raises(fs.DataError, match="features of client 1"):
            from_clients([([[1.0, 2.0]], [1.0]), ([[1.0, 2.0], [3.0]], [1.0, 2.0])])

    @pytest.mark.parametrize(
        "targets", [[1.0], [1.0, 2.0, 3.0], [[1.0, 2.0]], 1.0, [[1, 2], [3, 4]]]
    )
    def test_targets_that_do_not_match_the_rows(self, targets):
        with pytest.raises(fs.DataError, match=r"client 0 has 2 rows.*one entry per row"):
            from_clients([(np.eye(2), targets)])

    @pytest.mark.parametrize("features", [[["a", "b"]], [[1.0, "x"]], [["", "1"]]])
    def test_text_in_features(self, features):
        with pytest.raises(fs.DataError, match=r"features of client 0.*not numbers"):
            from_clients([(features, [1.0])])

    @pytest.mark.parametrize("convert", STORAGES)
    def test_complex_features(self, convert):
        with pytest.raises(fs.DataError, match="features of client 0 are complex"):
            from_clients(convert([(np.array([[1.0 + 1j, 2.0]]), [1.0])]))

    def test_dates_are_not_numbers(self):
        with pytest.raises(fs.DataError, match=r"features of client 0.*not numbers"):
            from_clients([(np.array([["2020-01-01"]], dtype="datetime64[D]"), [1.0])])

    @pytest.mark.parametrize("pair", [np.eye(2), (np.eye(2),), (1, 2, 3), None, 5])
    def test_something_that_is_not_a_pair(self, pair):
        with pytest.raises(fs.DataError, match="client 1"):
            from_clients([(np.eye(2), [1.0, 2.0]), pair])


class TestMoreRefusals:
    def test_csr_indices_beyond_the_width(self):
        matrix = sparse.csr_array((np.ones(3), np.array([1, 2, 10]), np.array([0, 2, 3])), (2, 10))
        with pytest.raises(fs.DataError, match="features of client 0 are malformed"):
            fs.FederatedData.from_clients([(matrix, [1.0, 2.0])])

    def test_masked_values(self):
        masked = np.ma.masked_equal([[1.0, -999.0]], -999.0)
        with pytest.raises(fs.DataError, match="client 0 has masked values"):
            fs.FederatedData.from_clients([(masked, [1.0])])

    def test_text_labels_at_one_client_and_numbers_at_another(self):
        with pytest.raises(fs.DataError, match="client 1 and client 0 are of different kinds"):
            fs.FederatedData.from_clients([([[1.0]], [0]), ([[1.0]], ["0"])])


def test_pooling_a_view_keeps_the_classes_of_the_federation():
    data = fs.FederatedData.from_clients([([[1.0]] * 3, [0, 1, 2]), ([[1.0]] * 2, [0, 1])])
    encoded = fs.Softmax().encode(data.client(1).pooled())
    assert encoded.classes.tolist() == [0, 1, 2]
