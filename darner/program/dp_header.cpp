// SPDX-License-Identifier: MIT
// Each struct of a Program is described once, by a function that hands its fields to an archive: the Writer makes JSON of them,
// the Reader fills them. Structured bindings name all fields of a struct: one that is new does not compile until it is here.
#include "darner/program/dp_header.h"

#include "darner/base/bytes.h"
#include "darner/kir/text.h"
#include "darner/kir/verify.h"
#include "darner/program/dp.h"

#include <fmt/format.h>

#include <algorithm>
#include <concepts>
#include <deque>
#include <nlohmann/json.hpp>
#include <set>

namespace darner {
namespace {

using nlohmann::json;
// Keys stay in the order of the descriptions.
using ordered = nlohmann::ordered_json;

template <class T, class U>
concept Is = std::same_as<std::remove_const_t<T>, U>;

// What a field may be without a description: how its values are spelt, in order.
constexpr std::array device_kinds = {DeviceKind::discrete_gpu, DeviceKind::integrated_gpu, DeviceKind::virtual_gpu,
                                     DeviceKind::cpu, DeviceKind::interpreter};
constexpr std::array code_kinds = {CodeKind::kir, CodeKind::spirv, CodeKind::wgsl};
constexpr std::array hazard_kinds = {HazardKind::explicit_barriers, HazardKind::per_buffer};
constexpr std::array segment_kinds = {SegmentKind::state, SegmentKind::io, SegmentKind::scratch, SegmentKind::constant};
constexpr std::array accesses = {kir::Access::read, kir::Access::write, kir::Access::inout};
constexpr std::array scalars = {kir::Scalar::boolean, kir::Scalar::i32, kir::Scalar::u32,
                                kir::Scalar::f32,     kir::Scalar::f16, kir::Scalar::bf16};
const auto& values_of(DeviceKind) { return device_kinds; }
const auto& values_of(CodeKind) { return code_kinds; }
const auto& values_of(HazardKind) { return hazard_kinds; }
const auto& values_of(SegmentKind) { return segment_kinds; }
const auto& values_of(kir::Access) { return accesses; }
const auto& values_of(kir::Scalar) { return scalars; }

template <class E>
const char* spelling(E value) {
    using darner::to_string;
    using kir::to_string;
    return to_string(value);
}
template <>
const char* spelling(HazardKind kind) {
    return kind == HazardKind::per_buffer ? "per_buffer" : "explicit_barriers";
}

// --- what is described ------------------------------------------------------------------------------------------------

void describe(auto& a, Is<CoopShape> auto& shape) {
    auto& [input, accumulator, m, n, k] = shape;
    a("input", input);
    a("accumulator", accumulator);
    a("m", m);
    a("n", n);
    a("k", k);
}

void describe(auto& a, Is<Caps> auto& caps) {
    auto& [kind, code, hazard, bindings, binding_bytes, segment_bytes, alignment, workgroup_bytes, invocations, workgroup_size,
           groups, param_bytes, loop_rounds, subgroup_min, subgroup_max, subgroup_size, size_control, shuffle, f16_storage,
           f16_arithmetic, bf16_coop, memory_model, preserves_nan, coop_shapes, units, memory, copy_rate, f32_rate,
           dispatch_seconds, barrier_seconds] = caps;
    a("kind", kind);
    a("code", code);
    a("hazard", hazard);
    a("max_storage_bindings", bindings);
    a("max_binding_bytes", binding_bytes);
    a("max_segment_bytes", segment_bytes);
    a("offset_alignment", alignment);
    a("max_workgroup_bytes", workgroup_bytes);
    a("max_invocations", invocations);
    a("max_workgroup_size", workgroup_size);
    a("max_groups", groups);
    a("max_param_bytes", param_bytes);
    a("max_loop_rounds", loop_rounds);
    a("subgroup_min", subgroup_min);
    a("subgroup_max", subgroup_max);
    a("subgroup_size", subgroup_size);
    a("subgroup_size_control", size_control);
    a("subgroup_shuffle", shuffle);
    a("f16_storage", f16_storage);
    a("f16_arithmetic", f16_arithmetic);
    a("bf16_coop", bf16_coop);
    a("vulkan_memory_model", memory_model);
    a("preserves_nan", preserves_nan);
    a("coop_shapes", coop_shapes);
    a("compute_units", units);
    a("memory_bytes", memory);
    a("copy_bytes_per_second", copy_rate);
    a("f32_flops", f32_rate);
    a("dispatch_seconds", dispatch_seconds);
    a("barrier_seconds", barrier_seconds);
}

void describe(auto& a, Is<ByteRange> auto& range) {
    auto& [offset, bytes] = range;
    a("offset", offset);
    a("bytes", bytes);
}

void describe(auto& a, Is<Segment> auto& segment) {
    auto& [kind, bytes, zeroed, slots, kept_zero] = segment;
    a("kind", kind);
    a("bytes", bytes);
    a("zeroed", zeroed);
    a("slots", slots);
    a("kept_zero", kept_zero);
}

void describe(auto& a, Is<ProgramTensor> auto& tensor) {
    auto& [name, dtype, dims, segment, offset, bytes, role, trainable, per_step] = tensor;
    a("name", name);
    a("dtype", dtype);
    a("dims", dims);
    a("segment", segment);
    a("offset", offset);
    a("bytes", bytes);
    a("role", role);
    a("trainable", trainable);
    a("per_step", per_step);
}

// The structural hash is computed again from the kernel.
void describe(auto& a, Is<KernelCode> auto& kernel) {
    auto& [kir, hash, spirv, wgsl] = kernel;
    a.kernel("kir", kir, hash);
    a.words("spirv", spirv);
    a.text("wgsl", wgsl);
}

void describe(auto& a, Is<Constant> auto& constant) {
    auto& [segment, offset, bytes] = constant;
    a("segment", segment);
    a("offset", offset);
    a.bytes("data", bytes);
}

void describe(auto& a, Is<BindingWindow> auto& window) {
    auto& [segment, offset, bytes, access] = window;
    a("segment", segment);
    a("offset", offset);
    a("bytes", bytes);
    a("access", access);
}

void describe(auto& a, Is<Dispatch> auto& dispatch) {
    auto& [kernel, groups, bindings, params, label, bytes_moved, flops, groups_from] = dispatch;
    a("kernel", kernel);
    a("groups", groups);
    a("bindings", bindings);
    a("params", params);
    a("label", label);
    a("bytes_moved", bytes_moved);
    a("flops", flops);
    a("groups_from", groups_from);
}

void describe(auto&, Is<Barrier> auto&) {}

void describe(auto& a, Is<Copy> auto& copy) {
    auto& [source, target] = copy;
    a("source", source);
    a("target", target);
}

void describe(auto& a, Is<Repeat> auto& repeat) {
    auto& [count, body, counter] = repeat;
    a("count", count);
    a("body", body);
    a("counter", counter);
}

constexpr std::array item_names = {"dispatch", "barrier", "copy", "repeat"};
static_assert(item_names.size() == std::variant_size_v<Item>);

void describe(auto& a, Is<Entry> auto& entry) {
    auto& [name, inputs, outputs, body] = entry;
    a("name", name);
    a("inputs", inputs);
    a("outputs", outputs);
    a("body", body);
}

void describe(auto& a, Is<PlanReport> auto& report) {
    auto& [entry, kernels, dispatches, barriers, buffer_barriers, scratch, lower_bound, sum, state, moved, flops] = report;
    a("entry", entry);
    a("kernels", kernels);
    a("dispatches", dispatches);
    a("barriers", barriers);
    a("buffer_barriers", buffer_barriers);
    a("scratch_bytes", scratch);
    a("scratch_lower_bound", lower_bound);
    a("scratch_sum", sum);
    a("state_bytes", state);
    a("bytes_moved", moved);
    a("flops", flops);
}

void describe(auto& a, Is<Program> auto& program) {
    auto& [caps, segments, tensors, kernels, constants, entries, reports] = program;
    a("caps", caps);
    a("segments", segments);
    a("tensors", tensors);
    a("kernels", kernels);
    a("constants", constants);
    a("entries", entries);
    a("reports", reports);
}

// --- writing ----------------------------------------------------------------------------------------------------------

struct Blobs {
    std::vector<Blob> list;
    std::deque<std::string> texts;  // whose addresses last
    uint64_t end = 0;
};

class Writer {
public:
    explicit Writer(Blobs& blobs) : blobs_(blobs) {}
    ordered take() { return std::move(object_); }

    template <class T>
    void operator()(const char* key, const T& value) {
        object_[key] = to_json(value);
    }
    // What is not there has no key.
    template <class T>
    void operator()(const char* key, const std::optional<T>& value) {
        if (value) object_[key] = to_json(*value);
    }

    void kernel(const char* key, const kir::Kernel& kernel, uint64_t) {
        blobs_.texts.push_back(kir::to_text(kernel));
        bytes(key, bytes_of(blobs_.texts.back()));
    }
    void words(const char* key, const std::vector<uint32_t>& words) {
        if (!words.empty()) bytes(key, std::as_bytes(std::span(words)));
    }
    void text(const char* key, const std::string& text) {
        if (!text.empty()) bytes(key, bytes_of(text));
    }
    void bytes(const char* key, Blob blob) {
        object_[key] = {blobs_.end, blob.size()};
        blobs_.list.push_back(blob);
        blobs_.end += (blob.size() + blob_alignment - 1) / blob_alignment * blob_alignment;
    }

private:
    template <class T>
    ordered to_json(const T& value) {
        if constexpr (std::is_enum_v<T>) {
            return spelling(value);
        } else if constexpr (std::is_arithmetic_v<T> || Is<T, std::string>) {
            return value;
        } else if constexpr (requires { value.valid(); }) {
            return value.value;
        } else if constexpr (requires { value.begin(); }) {
            ordered list = ordered::array();
            for (const auto& element : value) list.push_back(to_json(element));
            return list;
        } else if constexpr (Is<T, Item>) {
            ordered item;
            item[item_names[value.index()]] = std::visit([&](const auto& alternative) { return to_json(alternative); }, value);
            return item;
        } else {
            Writer inner(blobs_);
            describe(inner, value);
            return inner.object_;
        }
    }

    Blobs& blobs_;
    ordered object_ = ordered::object();
};

// --- reading ----------------------------------------------------------------------------------------------------------

// Keeps the first error; what is read behind it is not looked at.
class Reading {
public:
    Reading(Blob data, const std::string& where) : data_(data), where_(where) {}

    bool fail(const std::string& what) {
        if (!error_) error_ = invalid(fmt::format("[dp] {}: {}", path_.empty() ? "the header" : path_, what), where_);
        return false;
    }
    const std::optional<Error>& error() const { return error_; }

    // The next blob; empty after an error.
    Blob blob(const json& value) {
        if (!value.is_array() || value.size() != 2 || !value[0].is_number_unsigned() || !value[1].is_number_unsigned()) {
            fail("expected [offset, bytes]");
            return {};
        }
        const uint64_t offset = value[0].get<uint64_t>(), bytes = value[1].get<uint64_t>();
        if (offset != end_) {
            fail(fmt::format("bytes at {} of the data, expected them at {}, behind those before", offset, end_));
            return {};
        }
        if (bytes > data_.size() - end_) {
            fail(fmt::format("bytes [{}, +{}) end behind the {} bytes of data", offset, bytes, data_.size()));
            return {};
        }
        end_ = std::min<uint64_t>(data_.size(), (end_ + bytes + blob_alignment - 1) / blob_alignment * blob_alignment);
        return data_.subspan(offset, bytes);
    }
    void check_end() {
        if (end_ != data_.size()) fail(fmt::format("{} bytes of data that nothing points to", data_.size() - end_));
    }

    // The name of what is being read, for messages.
    class Step {
    public:
        Step(Reading& reading, const std::string& name) : reading_(reading), length_(reading.path_.size()) {
            reading.path_ += reading.path_.empty() || name.starts_with('[') ? name : "." + name;
        }
        ~Step() { reading_.path_.resize(length_); }

    private:
        Reading& reading_;
        size_t length_;
    };

private:
    Blob data_;
    const std::string& where_;
    uint64_t end_ = 0;
    std::string path_;
    std::optional<Error> error_;
};

// Lists nest by repeats alone; verify() has the limit on those that make sense.
constexpr int max_item_depth = 64;

class Reader {
public:
    Reader(Reading& reading, const json& object, int depth) : reading_(reading), object_(object), depth_(depth) {
        if (!object.is_object()) reading.fail("expected an object");
    }
    // All keys must have been asked for.
    void finish() {
        if (reading_.error() || keys_.size() == object_.size()) return;
        for (const auto& [key, value] : object_.items())
            if (!keys_.contains(key)) reading_.fail(fmt::format("unknown entry \"{}\"", key));
    }

    template <class T>
    void operator()(const char* key, T& value) {
        const Reading::Step step(reading_, key);
        if (const json* from = find(key, true)) read(*from, value);
    }
    template <class T>
    void operator()(const char* key, std::optional<T>& value) {
        const Reading::Step step(reading_, key);
        if (const json* from = find(key, false)) read(*from, value.emplace());
    }

    void kernel(const char* key, kir::Kernel& kernel, uint64_t& hash) {
        const Reading::Step step(reading_, key);
        const json* from = find(key, true);
        if (!from) return;
        const std::string_view text = text_of(reading_.blob(*from));
        if (reading_.error()) return;
        Result<kir::Kernel> parsed = kir::parse(text);
        if (!parsed) return void(reading_.fail(fmt::format("{}: {}", parsed.error().where, parsed.error().message)));
        if (const Result<void> good = kir::verify(*parsed); !good) return void(reading_.fail(good.error().message));
        kernel = std::move(*parsed);
        hash = kir::structural_hash(kernel);
    }
    void words(const char* key, std::vector<uint32_t>& words) {
        const Blob blob = optional_blob(key);
        if (blob.size() % 4) reading_.fail(fmt::format("\"{}\" has {} bytes, no multiple of 4", key, blob.size()));
        words.resize(blob.size() / 4);
        if (!words.empty()) std::memcpy(words.data(), blob.data(), words.size() * 4);
    }
    void text(const char* key, std::string& text) { text = text_of(optional_blob(key)); }
    void bytes(const char* key, std::vector<std::byte>& bytes) {
        const Reading::Step step(reading_, key);
        const json* from = find(key, true);
        if (!from) return;
        const Blob blob = reading_.blob(*from);
        bytes.assign(blob.begin(), blob.end());
    }

private:
    // Null when it is not there or something failed before.
    const json* find(const char* key, bool needed) {
        if (reading_.error()) return nullptr;
        const auto found = object_.find(key);
        if (found != object_.end()) {
            keys_.insert(key);
            return &*found;
        }
        if (needed) reading_.fail("it is missing");
        return nullptr;
    }
    Blob optional_blob(const char* key) {
        const Reading::Step step(reading_, key);
        const json* from = find(key, false);
        return from ? reading_.blob(*from) : Blob{};
    }

    void read(const json& from, bool& value) {
        if (!from.is_boolean()) return void(reading_.fail("expected true or false"));
        value = from.get<bool>();
    }
    template <std::integral T>
    void read(const json& from, T& value) {
        constexpr bool is_signed = std::is_signed_v<T>;
        const bool is_whole = is_signed ? from.is_number_integer() : from.is_number_unsigned();
        if (!is_whole || (from.is_number_unsigned() && from.get<uint64_t>() > uint64_t(std::numeric_limits<T>::max())))
            return void(reading_.fail(fmt::format("expected a whole number from {} to {}", std::numeric_limits<T>::min(),
                                                  std::numeric_limits<T>::max())));
        value = from.get<T>();
    }
    void read(const json& from, double& value) {
        if (!from.is_number()) return void(reading_.fail("expected a number"));
        value = from.get<double>();
    }
    void read(const json& from, std::string& value) {
        if (!from.is_string()) return void(reading_.fail("expected a text"));
        value = from.get_ref<const std::string&>();
    }
    template <class Tag>
    void read(const json& from, Id<Tag>& value) {
        read(from, value.value);
    }
    template <class E>
    requires std::is_enum_v<E>
    void read(const json& from, E& value) {
        std::string text, all;
        read(from, text);
        for (const E known : values_of(E())) {
            if (text == spelling(known)) return void(value = known);
            all += fmt::format("{}{}", all.empty() ? "" : ", ", spelling(known));
        }
        reading_.fail(fmt::format("got \"{}\", expected one of {}", text, all));
    }
    template <class T, size_t n>
    void read(const json& from, std::array<T, n>& values) {
        if (!from.is_array() || from.size() != n) return void(reading_.fail(fmt::format("expected a list of {}", n)));
        for (size_t i = 0; i < n; ++i) read(from[i], values[i]);
    }
    template <class T>
    void read(const json& from, std::vector<T>& values) {
        if (!from.is_array()) return void(reading_.fail("expected a list"));
        for (size_t i = 0; i < from.size() && !reading_.error(); ++i) {
            const Reading::Step step(reading_, fmt::format("[{}]", i));
            read(from[i], values.emplace_back());
        }
    }
    void read(const json& from, Item& item) {
        if (depth_ > max_item_depth) return void(reading_.fail(fmt::format("items nest deeper than {}", max_item_depth)));
        const std::string name = from.is_object() && from.size() == 1 ? from.begin().key() : "";
        if (name == "dispatch") return read(*from.begin(), item.emplace<Dispatch>());
        if (name == "barrier") return read(*from.begin(), item.emplace<Barrier>());
        if (name == "copy") return read(*from.begin(), item.emplace<Copy>());
        if (name == "repeat") return read(*from.begin(), item.emplace<Repeat>());
        reading_.fail(fmt::format("expected an object with one of {}", fmt::join(item_names, ", ")));
    }
    template <class T>
    requires requires(Reader& a, T& value) { describe(a, value); }
    void read(const json& from, T& value) {
        Reader inner(reading_, from, depth_ + 1);
        describe(inner, value);
        inner.finish();
    }

    Reading& reading_;
    const json& object_;
    int depth_;
    std::set<std::string, std::less<>> keys_;
};

// A key that occurs twice would hide its first value from the reader.
std::optional<json> parse_json(std::string_view text) {
    std::vector<std::set<std::string>> keys;
    bool twice = false;
    const json::parser_callback_t watch = [&](int, json::parse_event_t event, json& parsed) {
        if (event == json::parse_event_t::object_start) keys.emplace_back();
        if (event == json::parse_event_t::object_end) keys.pop_back();
        if (event == json::parse_event_t::key) twice |= !keys.back().insert(parsed.get_ref<const std::string&>()).second;
        return true;
    };
    json parsed = json::parse(text, watch, false);
    if (parsed.is_discarded() || twice) return std::nullopt;
    return parsed;
}

}  // namespace

Result<DpContents> describe_program(const Program& program) {
    Blobs blobs;
    Writer writer(blobs);
    writer("hash", std::string(hash_digits, '0'));
    writer("format", dp_format_version);
    writer("features", required_features(program));
    describe(writer, program);
    const ordered object = writer.take();
    DpContents contents;
    contents.header = object.dump(-1, ' ', false, ordered::error_handler_t::replace);
    if (ordered::parse(contents.header, nullptr, false) != object)
        return invalid("[dp] a name or a label is not valid UTF-8, or a rate of the device is no finite number");
    contents.header.append((blob_alignment - contents.header.size() % blob_alignment) % blob_alignment, ' ');
    contents.blobs = std::move(blobs.list);
    contents.texts = std::move(blobs.texts);
    return contents;
}

Result<Program> parse_header(std::string_view header, Blob data, const std::string& where) {
    const std::optional<json> object = parse_json(header);
    if (!object) return invalid("[dp] the header is not valid JSON, or an entry occurs twice", where);
    Reading reading(data, where);
    Reader reader(reading, *object, 0);
    std::string hash;
    uint32_t format = 0;
    std::vector<std::string> features;
    Program program;
    reader("hash", hash);
    reader("format", format);
    reader("features", features);
    describe(reader, program);
    reader.finish();
    if (!reading.error()) reading.check_end();
    if (!reading.error() && features != required_features(program))
        reading.fail(fmt::format("\"features\" are [{}], but the kernels need [{}]", fmt::join(features, ", "),
                                 fmt::join(required_features(program), ", ")));
    if (reading.error()) return *reading.error();
    return program;
}

}  // namespace darner
