"""Meshes against the Matérn that they stand for, and against dense matrices."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse
from scipy.special import k1

from npvi.components import Dense, Mesh, MeshField

PLACES = np.random.default_rng(0).uniform(size=(400, 2)) * [3.0, 2.0]


def test_far_from_its_border_a_fine_mesh_is_a_matern_of_smoothness_one():
    off = []
    for side in (20, 40):
        lattice = np.stack(np.meshgrid(*[np.linspace(0.0, 3.0, side)] * 2), axis=-1).reshape(-1, 2)
        mesh = Mesh.on(lattice + 1e-3 * np.random.default_rng(1).standard_normal(lattice.shape))
        covariance = np.linalg.inv(mesh.precision(0.8, 1.3)) / 1.3**2
        inside = np.flatnonzero(np.abs(mesh.nodes - 1.5).max(axis=1) < 0.6)
        middle = inside[np.argmin(np.abs(mesh.nodes[inside] - 1.5).sum(axis=1))]
        r = np.linalg.norm(mesh.nodes[inside] - mesh.nodes[middle], axis=1) * np.sqrt(8.0) / 0.8
        expected = np.where(r > 0.0, r * k1(np.maximum(r, 1e-9)), 1.0)
        off.append(
            (np.abs(np.diag(covariance)[inside] - 1.0).max(), np.abs(covariance[middle, inside] - expected).max())
        )
    assert max(off[1]) < 0.08
    assert max(off[1]) < 0.6 * max(off[0])  # and finer is nearer


def test_slopes_by_differences():
    mesh = Mesh.of(PLACES, 0.3)
    difference = (mesh.precision(0.5 + 1e-6, 0.8) - mesh.precision(0.5 - 1e-6, 0.8)) / 2e-6
    slope = mesh.slope(0.5, 0.8)
    np.testing.assert_allclose(slope, difference, atol=1e-6 * np.abs(slope).max())


def test_copies_are_as_one_dense_component():
    rng = np.random.default_rng(2)
    mesh = Mesh.of(PLACES, 0.8)
    block, slope = mesh.precision(0.9, 0.7), mesh.slope(0.9, 0.7)
    n = len(block)
    one = mesh.functions(PLACES).toarray()
    level = rng.integers(3, size=len(PLACES))
    seen = np.zeros((len(PLACES), 3, n))
    seen[np.arange(len(PLACES)), level] = one
    seen = seen.reshape(len(PLACES), -1)
    found = MeshField(scipy.sparse.csr_array(seen), block)
    expected = Dense(seen, np.kron(np.eye(3), block))
    z = rng.standard_normal((3 * n, 4))
    np.testing.assert_allclose(found.matvec(z), expected.matvec(z), rtol=1e-9)
    np.testing.assert_allclose(found.matvec(z[:, 0]), expected.matvec(z[:, 0]), rtol=1e-9)
    assert found.quadratic(z[:, 0]) == pytest.approx(expected.quadratic(z[:, 0]))
    assert found.logdet == pytest.approx(expected.logdet)
    np.testing.assert_allclose(found.row_variance(1e9), expected.row_variance(1e9), rtol=1e-6)
    np.testing.assert_allclose(
        found.within_rows(found.factor(level + 1.0)), expected.within_rows(expected.factor(level + 1.0))
    )
    factor = found.factor(np.ones(len(PLACES)))
    whole = expected.gradient(np.kron(np.eye(3), slope), z, factor)
    assert found.gradient(slope, z, factor) == pytest.approx(whole)
    noise = found.precision_noise(rng, 20_000)
    np.testing.assert_allclose(noise @ noise.T / 20_000, found.precision, atol=0.05 * np.abs(block).max())
    some = np.array([5, 1, 7])
    np.testing.assert_allclose(found.of_rows(some).times(z), seen[some] @ z)


def test_nodes_are_an_edge_apart_and_cover_all_places():
    mesh = Mesh.of(PLACES, 0.25)
    apart = np.linalg.norm(mesh.nodes[:, None] - mesh.nodes[None], axis=-1)
    assert apart[np.triu_indices(len(apart), 1)].min() >= 0.25 * (1.0 - 1e-9)
    assert (mesh.triangulation.find_simplex(PLACES) >= 0).all()
    assert np.abs(mesh.functions(PLACES) @ mesh.nodes - PLACES).max() < 1e-12
    # wide where there are no data
    assert (mesh.nodes.min(axis=0) < PLACES.min(axis=0) - 0.25).all()


def test_the_order_of_rows_does_not_matter():
    again = Mesh.of(PLACES[::-1], 0.25)
    np.testing.assert_array_equal(Mesh.of(PLACES, 0.25).nodes, again.nodes)


def test_places_beyond_the_mesh_are_those_of_its_nearest_node():
    mesh = Mesh.of(PLACES, 0.5)
    far = np.array([[100.0, 1.0], [-50.0, -50.0]])
    nearest = [int(np.argmin(np.linalg.norm(mesh.nodes - place, axis=1))) for place in far]
    np.testing.assert_allclose(mesh.functions(far).toarray(), np.eye(len(mesh.nodes))[nearest], atol=1e-9)


def test_meshes_that_can_not_be():
    many = np.random.default_rng(3).uniform(size=(20_000, 2))
    with pytest.raises(ValueError, match="nodes, at most 4,000"):
        Mesh.of(many, 0.008)
    with pytest.raises(ValueError, match="too fine"):
        Mesh.of(PLACES, 1e-5)
    with pytest.raises(ValueError, match="on a line"):
        Mesh.on(np.column_stack([np.arange(5.0), np.arange(5.0)]))
