// SPDX-License-Identifier: MIT
// Labelled images from IDX files; the shuffle of an epoch.
#include "darner/nn/data.h"

#include "darner/io/idx.h"
#include "darner/ops/philox.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <utility>

namespace darner {
namespace {

// --- shuffle --------------------------------------------------------------------------------------------------------

constexpr uint32_t order_stream = 0xffffffff;

// The words of an epoch's random stream, one after the other.
class EpochWords {
public:
    EpochWords(uint64_t seed, uint32_t epoch)
        : key_{static_cast<uint32_t>(seed), static_cast<uint32_t>(seed >> 32)}, epoch_(epoch) {}

    uint32_t below(uint32_t n) {
        const uint32_t rejected = static_cast<uint32_t>((uint64_t{1} << 32) % n);
        for (;;) {
            const uint64_t product = uint64_t{next()} * n;
            if (static_cast<uint32_t>(product) >= rejected) return static_cast<uint32_t>(product >> 32);
        }
    }

private:
    uint32_t next() {
        if (used_ == block_.size()) {
            block_ = philox4x32({blocks_++, 0, order_stream, epoch_}, key_);
            used_ = 0;
        }
        return block_[used_++];
    }

    std::array<uint32_t, 2> key_;
    uint32_t epoch_, blocks_ = 0;
    std::array<uint32_t, 4> block_ = {};
    size_t used_ = 4;
};

// --- files ----------------------------------------------------------------------------------------------------------

Result<Array> read_idx_named(const std::string& folder, std::string_view name) {
    const std::string plain = fmt::format("{}/{}", folder, name), packed = plain + ".gz";
    std::error_code ignored;
    if (std::filesystem::exists(packed, ignored)) return read_idx(packed);
    if (std::filesystem::exists(plain, ignored)) return read_idx(plain);
    Error error = io_error(fmt::format("[data] there is no file {} or {}", packed, plain));
    error.hint = "Debian's package dataset-fashion-mnist has it: ./dev setup installs it";
    return error;
}

Result<LabelledImages> read_part(const std::string& folder, std::string_view part, int64_t classes) {
    TRY(Array images, read_idx_named(folder, fmt::format("{}-images-idx3-ubyte", part)));
    TRY(Array labels, read_idx_named(folder, fmt::format("{}-labels-idx1-ubyte", part)));
    return make_labelled_images(std::move(images), std::move(labels), classes, fmt::format("{}/{}", folder, part));
}

}  // namespace

std::vector<int32_t> epoch_order(uint64_t seed, uint32_t epoch, uint32_t count) {
    CHECK(count <= 0x7fffffffu, "an order of more than 2^31 - 1 examples");
    std::vector<int32_t> order(count);
    std::iota(order.begin(), order.end(), 0);
    EpochWords words(seed, epoch);
    for (uint32_t last = count; last-- > 1;) std::swap(order[words.below(last + 1)], order[last]);
    return order;
}

Result<LabelledImages> make_labelled_images(Array images, Array labels, int64_t classes, const std::string& where) {
    const auto fail = [&](std::string message) { return invalid("[data] " + message, where); };
    if (images.dtype != "u8" || images.dims.size() < 2)
        return fail(fmt::format("wrong images: got {}, expected u8 with an axis of examples and more", type_text(images)));
    const int64_t count = images.dims[0];
    if (count == 0 || images.data.empty()) return fail(fmt::format("there are no images: got {}", type_text(images)));
    if (count > 0x7fffffff) return fail(fmt::format("{} examples are more than an i32 can number", count));
    if (labels.dtype != "u8" || labels.dims != std::vector<int64_t>{count})
        return fail(fmt::format("wrong labels: got {}, expected u8[{}]", type_text(labels), count));
    const auto label_values = values_of<uint8_t>(labels);
    const int64_t largest = *std::max_element(label_values.begin(), label_values.end());
    if (largest >= classes) return fail(fmt::format("label {} is out of range: there are {} classes", largest, classes));
    std::vector<int64_t> extents(images.dims.begin() + 1, images.dims.end());
    images.dims = {count, static_cast<int64_t>(images.data.size()) / count};
    return LabelledImages{std::move(images), std::move(labels), std::move(extents)};
}

LabelledImages first_images(const LabelledImages& images, int64_t count) {
    count = std::min(count, images.count());
    const auto first = [&](const Array& array, int64_t bytes) {
        std::vector<int64_t> dims = array.dims;
        dims[0] = count;
        return Array{array.dtype, std::move(dims), {array.data.begin(), array.data.begin() + count * bytes}};
    };
    return {first(images.images, images.features()), first(images.labels, 1), images.extents};
}

Result<LabelledDataSet> load_fashion_mnist(const std::string& folder) {
    TRY(LabelledImages train, read_part(folder, "train", fashion_mnist_classes));
    TRY(LabelledImages test, load_fashion_mnist_test(folder));
    if (train.features() != test.features())
        return invalid(fmt::format("[data] training images have {} pixels, test images {}", train.features(), test.features()),
                       folder);
    return LabelledDataSet{std::move(train), std::move(test), fashion_mnist_classes};
}

Result<LabelledImages> load_fashion_mnist_test(const std::string& folder) {
    return read_part(folder, "t10k", fashion_mnist_classes);
}

}  // namespace darner
