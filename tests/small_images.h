// SPDX-License-Identifier: MIT
// A small made-up data set in the files of Fashion-MNIST, for whole runs of the command, and its JSON lines.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace darner::test {

using Json = nlohmann::ordered_json;

inline constexpr uint32_t small_train_images = 150, small_test_images = 35;

// Images of 10 by 10 pixels, noise in which the row of the label's number is bright.
void write_small_images(const std::string& folder, uint32_t seed = 1);

std::vector<Json> json_lines(const std::string& text);

}  // namespace darner::test
