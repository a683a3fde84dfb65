"""The factor on the pattern that is there already, and what it does to conjugate gradients."""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp
from scipy.sparse.linalg import LinearOperator, cg

import npvi
from npvi.linalg import zero_fill_factor
from npvi.priors import NNGP
from npvi.priors.nngp import classical

rng = np.random.default_rng(0)
n = 2000
X = rng.uniform(size=(n, 2))
graph = npvi.graph.build_graph(X, 10)
prior = NNGP(npvi.kernels.Matern32(0.3, 1.0), 1e-3, X[graph.order], graph)
w = np.exp(rng.normal(size=n))  # what observations say, some much and some little
T = prior.root.to_scipy()
A = (T.T @ T + sp.diags_array(w)).tocsr()
exact = np.linalg.cholesky(A.toarray()[::-1, ::-1])[::-1, ::-1]
U = zero_fill_factor(prior.root, w)

figure, axes = plt.subplots(1, 3, figsize=(11, 3.7), layout="constrained", width_ratios=[1, 1, 1.25])
for axis, matrix, title in ((axes[0], T, "zero-fill factor"), (axes[1], sp.coo_array(exact).T, "exact factor")):
    there = (np.abs(sp.coo_array(matrix).toarray()) > 0).reshape(100, 20, 100, 20)
    shades = np.log1p(there.sum(axis=(1, 3)))  # blocks of 20 rows and columns, darker where more is in them
    axis.imshow(shades, cmap="Blues", vmin=0.0, vmax=np.log1p(400.0))
    axis.set(xticks=[], yticks=[])
    axis.set_title(f"{title}\n{there.sum() / n:,.0f} entries a row", fontsize=10)

b = rng.standard_normal(n)
diagonal = LinearOperator((n, n), matvec=lambda x: x / A.diagonal())
usual = LinearOperator((n, n), matvec=classical(prior, w).solve)
factor = LinearOperator((n, n), matvec=U.solve)
for name, preconditioner in {"diagonal": diagonal, "the usual one": usual, "zero-fill factor": factor}.items():
    left = [1.0]
    watch = lambda x, left=left: left.append(np.linalg.norm(b - A @ x) / np.linalg.norm(b))  # noqa: E731
    cg(A, b, rtol=1e-8, maxiter=200, M=preconditioner, callback=watch)
    axes[2].semilogy(left, label=name)
axes[2].set(xlabel="iteration", xlim=(0, 100), ylim=(1e-8, 10))
axes[2].set_title("what is left of (P + W) x = b", fontsize=10)
axes[2].legend(title="preconditioner", fontsize=9)
