// SPDX-License-Identifier: MIT
// Labelled images on the host, and the order in which an epoch visits them.
#pragma once

#include "darner/io/array.h"

#include <cstdint>
#include <string>
#include <vector>

namespace darner {

struct LabelledImages {
    Array images;                       // u8[count, features]: one row an image
    Array labels;                       // u8[count]
    std::vector<int64_t> extents = {};  // of one image, whose features they are; empty: not known
    int64_t count() const { return images.dims[0]; }
    int64_t features() const { return images.dims[1]; }
};

struct LabelledDataSet {
    LabelledImages train, test;
    int64_t classes = 0;  // labels are below it
};

// Where Debian's package dataset-fashion-mnist puts its files.
inline constexpr const char* default_fashion_mnist_folder = "/usr/share/datasets/fashion-mnist";

// The four IDX files of Fashion-MNIST (or MNIST) in a folder, each with or without ".gz".
Result<LabelledDataSet> load_fashion_mnist(const std::string& folder = default_fashion_mnist_folder);

// Only the two files of the test images.
Result<LabelledImages> load_fashion_mnist_test(const std::string& folder = default_fashion_mnist_folder);
inline constexpr int64_t fashion_mnist_classes = 10;

// The first `count` of them, or all where there are fewer.
LabelledImages first_images(const LabelledImages& images, int64_t count);

// The same images and labels as a set of its own; errors name `where`. Takes images of any rank from 2 on.
Result<LabelledImages> make_labelled_images(Array images, Array labels, int64_t classes, const std::string& where);

// A permutation of 0 .. count-1, the same in every language that does as follows (all integers unsigned):
//   Word k of the epoch's random stream is word k % 4 of Philox4x32-10 with counter {k / 4, 0, 0xffffffff, epoch} and key
//   {seed mod 2^32, seed / 2^32}; the stream 0xffffffff is no graph's.
//   order = 0 .. count-1; for last = count-1 down to 1: draw j below n = last + 1, swap order[j] and order[last].
//   A draw below n takes the next word w: j = floor(w n / 2^32), unless (w n mod 2^32) < (2^32 mod n); then it takes the
//   next one. (So each j has exactly floor(2^32 / n) words.)
// `count` is below 2^31.
std::vector<int32_t> epoch_order(uint64_t seed, uint32_t epoch, uint32_t count);

}  // namespace darner
