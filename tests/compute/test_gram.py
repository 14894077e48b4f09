import numpy as np
import pytest

from fedsparse.compute.kernels.gram import symmetric_product


@pytest.mark.parametrize("count", range(1, 14))
def test_the_lower_triangle_alone_gives_the_product_with_a_symmetric_matrix(count):
    random = np.random.default_rng(count)
    rows = random.standard_normal((count, 5))
    matrix, vector = rows @ rows.T, random.standard_normal(count)
    product = np.full(count, np.nan)
    symmetric_product(matrix, vector, product)
    np.testing.assert_allclose(product, matrix @ vector, rtol=1e-12, atol=1e-12)
