"""Sites make their own keys; a roster says who they are, and a site keeps the one it was shown."""

import json
import stat

import pytest

from fedsparse.errors import OptionError
from fedsparse.federation.demonstration import prepare_sites
from fedsparse.federation.folder import ServerFolder, SiteFolder
from fedsparse.federation.keys import make_keys
from fedsparse.federation.roster import Roster, SiteCard, read_card, read_roster
from fedsparse.federation.server.enrolment import enrol, enrolled
from fedsparse.federation.site_keys import join, load_signing_key, member_of

SITES = ("bari", "cork", "delft")


@pytest.fixture
def server(tmp_path):
    folder = ServerFolder(tmp_path / "server")
    make_keys(folder, ["localhost"])
    return folder


@pytest.fixture
def sites(server):
    """Folders of three sites that have all they need."""
    prepare_sites(server, SITES)
    return {name: SiteFolder(server.package_of(name)) for name in SITES}


def site_at(path, name):
    folder = SiteFolder(path)
    return folder, join(folder, name)


def permissions(path):
    return stat.S_IMODE(path.stat().st_mode)


class TestJoin:
    def test_keys_are_made_at_the_site_and_nobody_else_may_read_them(self, tmp_path):
        folder, _ = site_at(tmp_path / "own", "bari")
        assert permissions(folder.root) == 0o700
        assert permissions(folder.key) == 0o600
        assert permissions(folder.signing_of("bari")) == 0o600

    def test_the_card_holds_nothing_private(self, tmp_path):
        folder, card = site_at(tmp_path / "own", "bari")
        handed = folder.card_of("bari").read_text()
        assert sorted(json.loads(handed)) == ["format", "line", "name", "signature", "signing"]
        private = load_signing_key(folder, "bari").private_bytes_raw().hex()
        assert private not in handed
        assert read_card(folder.card_of("bari")) == card

    def test_once_more_keeps_the_keys(self, tmp_path):
        folder, card = site_at(tmp_path / "own", "bari")
        before = folder.key.read_bytes()
        assert join(folder, "bari") == card
        assert folder.key.read_bytes() == before

    @pytest.mark.parametrize("left", [(), ("key",), ("key", "signing")], ids=len)
    @pytest.mark.parametrize("content", [b"", None], ids=["empty", "whole"])
    def test_what_a_broken_off_try_left_behind_is_made_anew(self, tmp_path, left, content):
        folder, _ = site_at(tmp_path / "own", "bari")
        folder.card_of("bari").unlink()
        for kind in ("key", "signing"):
            path = folder.root / f"bari.{kind}"
            if kind not in left:
                path.unlink()
            elif content is not None:
                path.write_bytes(content)
        card = join(folder, "bari")
        signing = load_signing_key(folder, "bari")
        assert card.verify(signing.sign(b"hello"), b"hello")
        assert permissions(folder.key) == 0o600

    def test_a_card_without_its_keys_is_told(self, tmp_path):
        folder, _ = site_at(tmp_path / "own", "bari")
        folder.signing_of("bari").unlink()
        with pytest.raises(OptionError, match=r"there is no .*bari.signing; make a site's keys"):
            join(folder, "bari")

    def test_a_card_beside_other_keys_is_told(self, tmp_path):
        folder, _ = site_at(tmp_path / "own", "bari")
        other, _ = site_at(tmp_path / "other", "bari")
        folder.card_of("bari").write_bytes(other.card_of("bari").read_bytes())
        with pytest.raises(OptionError, match="does not belong to the keys beside it"):
            join(folder, "bari")

    def test_two_sites_do_not_share_a_folder(self, tmp_path):
        folder, _ = site_at(tmp_path / "own", "bari")
        with pytest.raises(OptionError, match="holds the keys of bari; choose another folder"):
            join(folder, "cork")

    @pytest.mark.parametrize("name", ["../bari", "", "b\x1b[31mari", "a b"])
    def test_a_name_can_be_a_file_s(self, tmp_path, name):
        with pytest.raises(OptionError, match="a site cannot be called"):
            join(SiteFolder(tmp_path / "own"), name)
        assert not (tmp_path / "own").exists()


class TestCard:
    @pytest.mark.parametrize("field", ["name", "line", "signing", "signature"])
    def test_a_changed_field_is_noticed(self, tmp_path, field):
        _, card = site_at(tmp_path / "own", "bari")
        _, other = site_at(tmp_path / "other", "cork")
        changed = card.to_json() | {field: other.to_json()[field]}
        with pytest.raises(OptionError, match=r"bari.site holds a site whose signature does not"):
            SiteCard.from_json(changed, "bari.site")

    @pytest.mark.parametrize(
        "content",
        [b"", b"\xff\xfe", b"[]", b"{}", b'{"format": "fedsparse roster 1"}', b"[" * 100_000],
        ids=["empty", "no text", "list", "nothing", "a roster", "deep"],
    )
    def test_another_file_is_told(self, content):
        with pytest.raises(OptionError, match=r'x.site is not a "fedsparse site 1" file'):
            SiteCard.from_bytes(content, "x.site")

    @pytest.mark.parametrize("value", [None, 7, "", "zz", "ab", ["a"]])
    @pytest.mark.parametrize("field", ["name", "line", "signing", "signature"])
    def test_nonsense_in_a_field_is_told(self, tmp_path, field, value):
        _, card = site_at(tmp_path / "own", "bari")
        with pytest.raises(OptionError, match="whose signature does not fit"):
            SiteCard.from_json(card.to_json() | {field: value}, "x.site")

    def test_a_truncated_file_is_told(self, tmp_path):
        _, card = site_at(tmp_path / "own", "bari")
        with pytest.raises(OptionError, match="or only a part of one"):
            SiteCard.from_bytes(card.to_bytes()[:-20], "bari.site")


class TestRoster:
    def test_it_knows_who_signed_what(self, server, sites):
        roster = enrolled(server)
        said = load_signing_key(sites["bari"], "bari").sign(b"mask key")
        assert roster.verify("bari", said, b"mask key")
        assert not roster.verify("cork", said, b"mask key")
        assert not roster.verify("bari", said, b"another")
        assert not roster.verify("bari", b"short", b"mask key")
        with pytest.raises(OptionError, match=r'no site "espoo"; it has bari, cork, delft'):
            roster.verify("espoo", said, b"mask key")

    def test_its_fingerprint_depends_on_names_and_keys_and_not_on_the_order(self, tmp_path):
        cards = [site_at(tmp_path / name, name)[1] for name in SITES]
        roster = Roster.of(cards)
        assert Roster.of(cards[::-1]).fingerprint == roster.fingerprint
        assert Roster.of(cards[:2]).fingerprint != roster.fingerprint
        other = site_at(tmp_path / "other", "delft")[1]
        assert Roster.of([*cards[:2], other]).fingerprint != roster.fingerprint
        assert len(roster.fingerprint.replace(" ", "")) * 4 >= 128

    def test_all_sites_are_handed_the_same_two_files(self, server, sites):
        handed = {path.name: path.read_bytes() for path in server.for_sites.iterdir()}
        assert sorted(handed) == ["ca.crt", "roster.json"]
        for folder in sites.values():
            assert all((folder.root / name).read_bytes() == own for name, own in handed.items())
        assert b"PRIVATE" not in b"".join(handed.values())

    def test_a_wrong_signature_is_refused(self, server, sites):
        fields = json.loads(server.roster.read_text())
        fields["sites"][0]["name"] = "espoo"
        server.roster.write_text(json.dumps(fields))
        with pytest.raises(OptionError, match="holds a site whose signature does not fit"):
            read_roster(server.roster)

    def test_a_site_that_is_listed_twice_is_refused(self, server, sites):
        fields = json.loads(server.roster.read_text())
        fields["sites"].append(fields["sites"][0])
        server.roster.write_text(json.dumps(fields))
        with pytest.raises(OptionError, match=r"the same name twice \(bari and bari\)"):
            read_roster(server.roster)

    @pytest.mark.parametrize("sites", [None, 3, [3], [{}]])
    def test_nonsense_is_told(self, sites):
        content = json.dumps({"format": "fedsparse roster 1", "sites": sites}).encode()
        with pytest.raises(OptionError, match=r"^roster.json "):
            Roster.from_bytes(content, "roster.json")


class TestEnrolment:
    def test_a_card_that_is_there_already_changes_nothing(self, server, sites):
        before = server.roster.read_bytes()
        enrol(server, [read_card(sites["bari"].card_of("bari"))])
        assert server.roster.read_bytes() == before

    def test_a_key_that_changed_is_refused_until_it_is_said_to_be_meant(
        self, server, sites, tmp_path
    ):
        before = server.roster.read_bytes()
        _, card = site_at(tmp_path / "other", "bari")
        with pytest.raises(OptionError, match=r"bari has another key.*give --replace bari"):
            enrol(server, [card])
        assert server.roster.read_bytes() == before
        assert enrol(server, [card], replace=["bari"])["bari"] == card

    def test_a_name_twice_is_refused(self, server, tmp_path):
        cards = [site_at(tmp_path / place, "bari")[1] for place in ("one", "other")]
        with pytest.raises(OptionError, match="the same name twice"):
            enrol(server, cards)
        assert not server.roster.exists()

    def test_a_key_twice_is_refused(self, server, sites):
        folder = sites["bari"]
        signing = load_signing_key(folder, "bari")
        line = read_card(sites["cork"].card_of("cork")).line_key
        with pytest.raises(OptionError, match=r"the same signing key twice \(bari and espoo\)"):
            enrol(server, [SiteCard.of("espoo", line, signing)])

    def test_a_site_can_be_removed(self, server, sites):
        assert enrol(server, remove=["cork"]).names == ("bari", "delft")
        with pytest.raises(OptionError, match='the roster knows no site "cork"'):
            enrol(server, remove=["cork"])

    def test_what_sites_are_handed_is_mended(self, server, sites):
        (server.for_sites / "roster.json").write_bytes(b"")
        enrol(server)
        assert (server.for_sites / "roster.json").read_bytes() == server.roster.read_bytes()


class TestPinning:
    def hand_over(self, server, site):
        site.roster.write_bytes(server.roster.read_bytes())

    def test_the_first_roster_is_told_and_remembered(self, server, sites):
        told = []
        member = member_of(sites["bari"], None, told.append)
        assert member.name == "bari"
        assert member.roster == enrolled(server)
        assert member.roster.verify("bari", member.signing.sign(b"hello"), b"hello")
        assert member.roster.fingerprint in told[0]
        assert "Compare it" in told[0]
        assert member_of(sites["bari"], None, told.append).roster == member.roster
        assert len(told) == 1

    def test_another_roster_is_refused_and_what_differs_is_named(self, server, sites, tmp_path):
        member_of(sites["bari"], None, lambda _: None)
        _, new = site_at(tmp_path / "espoo", "espoo")
        _, changed = site_at(tmp_path / "other", "cork")
        enrol(server, [new, changed], remove=["delft"], replace=["cork"])
        self.hand_over(server, sites["bari"])
        told = "cork has another key, espoo was added, delft was removed; .*--accept-roster"
        for _ in range(2):
            with pytest.raises(OptionError, match=told):
                member_of(sites["bari"], None, lambda _: None)

    def test_another_roster_is_accepted_by_its_fingerprint_alone(self, server, sites):
        first = member_of(sites["bari"], None, lambda _: None).roster
        enrol(server, remove=["delft"])
        self.hand_over(server, sites["bari"])
        with pytest.raises(OptionError, match="not the one that was given with --accept-roster"):
            member_of(sites["bari"], first.fingerprint, lambda _: None)
        read_out = enrolled(server).fingerprint.upper().replace(" ", "-")
        assert member_of(sites["bari"], read_out, lambda _: None).roster.names == ("bari", "cork")
        assert member_of(sites["bari"], None, lambda _: None).roster.names == ("bari", "cork")

    def test_a_roster_without_the_site_is_refused(self, server, sites):
        enrol(server, remove=["bari"])
        self.hand_over(server, sites["bari"])
        with pytest.raises(OptionError, match=r"roster.json does not have bari; send .*bari.site"):
            member_of(sites["bari"], None, lambda _: None)

    def test_a_roster_with_another_key_for_the_site_is_refused(self, server, sites, tmp_path):
        _, impostor = site_at(tmp_path / "other", "bari")
        roster = enrol(server, [impostor], replace=["bari"])
        self.hand_over(server, sites["bari"])
        with pytest.raises(OptionError, match="has bari with another key than"):
            member_of(sites["bari"], roster.fingerprint, lambda _: None)

    def test_a_damaged_memory_is_told(self, sites):
        sites["bari"].pinned.write_bytes(b"")
        with pytest.raises(OptionError, match=r"roster.pinned is damaged; delete it"):
            member_of(sites["bari"], None, lambda _: None)
