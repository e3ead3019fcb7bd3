// SPDX-License-Identifier: MIT
#include "tests/small_images.h"

#include "darner/base/files.h"

#include <gtest/gtest.h>
#include <random>
#include <sstream>

namespace darner::test {
namespace {

void put_u32(std::string& out, uint32_t value) {
    for (int shift = 24; shift >= 0; shift -= 8) out += static_cast<char>(value >> shift);
}

void write_images(const std::string& path, uint32_t count, uint32_t seed) {
    constexpr uint32_t side = 10;
    std::mt19937 random(seed);
    std::string images, labels;
    put_u32(images, 0x803);
    put_u32(labels, 0x801);
    for (std::string* file : {&images, &labels}) put_u32(*file, count);
    put_u32(images, side);
    put_u32(images, side);
    for (uint32_t i = 0; i < count; ++i) {
        const uint32_t label = i % 10;
        labels += static_cast<char>(label);
        for (uint32_t row = 0; row < side; ++row)
            for (uint32_t col = 0; col < side; ++col) images += static_cast<char>(random() % 100 + (row == label ? 150 : 0));
    }
    ASSERT_TRUE(write_text_file(path + "-images-idx3-ubyte", images));
    ASSERT_TRUE(write_text_file(path + "-labels-idx1-ubyte", labels));
}

}  // namespace

void write_small_images(const std::string& folder, uint32_t seed) {
    write_images(folder + "/train", small_train_images, seed);
    write_images(folder + "/t10k", small_test_images, seed + 1);
}

std::vector<Json> json_lines(const std::string& text) {
    std::vector<Json> lines;
    std::istringstream in(text);
    for (std::string line; std::getline(in, line);) lines.push_back(Json::parse(line));
    return lines;
}

}  // namespace darner::test
