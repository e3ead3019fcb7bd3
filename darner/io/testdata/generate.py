# SPDX-License-Identifier: MIT
# Writes the files of this folder with NumPy and the safetensors package: what others write must be readable.
# Only needed when a file is added: python3 generate.py (pip install numpy safetensors).
import pathlib

import numpy as np
from safetensors.numpy import save_file

here = pathlib.Path(__file__).parent


def npy(name, array, version=None):
    with open(here / f"{name}.npy", "wb") as file:
        np.lib.format.write_array(file, array, version=version)


grid = np.arange(6).reshape(2, 3)
for dtype in ["f2", "f4", "f8", "i1", "u1", "i4", "u4", "i8", "i2", "u2", "u8", "c8"]:
    npy(dtype, grid.astype("<" + dtype))
npy("bool", grid % 2 == 1)
npy("version2", grid.astype("<f4"), (2, 0))
npy("version3", grid.astype("<f4"), (3, 0))
npy("big_endian", grid.astype(">f4"))
npy("fortran", np.asfortranarray(np.arange(24, dtype="<i4").reshape(2, 3, 4)))
npy("scalar", np.array(2.5, "<f8"))
npy("empty", np.zeros((3, 0, 2), "<f4"))
npy("vector", np.array([7, 8, 9], "<i8"))
npy("record", np.zeros(2, [("a", "<f4"), ("b", "<i4")]))
npy("text", np.array(["ab", "c"]))
save_file(
    {
        "weight": grid.astype("<f4"),
        "bias": np.array([1, 2, 3], "<f2"),
        "mask": np.array([True, False, True]),
        "step": np.array(41, "<i8"),
        "none": np.zeros((0, 4), "<f4"),
    },
    here / "mixed.safetensors",
    metadata={"format": "np", "title": 'a "quoted" naïve text'},
)
save_file({"short": grid.astype("<i2")}, here / "i16.safetensors")
