// SPDX-License-Identifier: MIT
// Declarations of a WGSL module: extensions, bindings, arrays, the params struct, helper functions, the entry point.
#include "darner/base/check.h"
#include "darner/emit/wgsl_function.h"

#include <fmt/format.h>

#include <algorithm>

namespace darner::wgsl {

using kir::Opcode;
using kir::Type;

namespace {

struct Builtin {
    Opcode op;
    const char* name;  // of the WGSL built-in
};
constexpr Builtin builtin_table[] = {
    {Opcode::workgroup_id, "workgroup_id"},    {Opcode::num_workgroups, "num_workgroups"},
    {Opcode::local_id, "local_invocation_id"}, {Opcode::local_index, "local_invocation_index"},
    {Opcode::subgroup_id, "subgroup_id"},      {Opcode::lane_id, "subgroup_invocation_id"},
    {Opcode::subgroup_size, "subgroup_size"},
};

// Truncates and saturates, NaN gives 0; NaN is told by its bits, since WGSL may assume that there is none.
constexpr const char* to_integer_body = R"(  let nan = (bitcast<{u}>(x) & {u}(0x7fffffffu)) > {u}(0x7f800000u);
  let number = select(x, {f}(0f), nan);
  let converted = {t}(clamp(number, {f}({low}), {f}({high})));
  return select(converted, {t}({most}), number >= {f}({beyond}));
)";

// The high word of a product, from the four products of 16-bit halves.
constexpr const char* mul_high_body = R"(  let a_low = a & {u}(0xffffu);
  let a_high = a >> {u}(16u);
  let b_low = b & {u}(0xffffu);
  let b_high = b >> {u}(16u);
  let middle = a_high * b_low + ((a_low * b_low) >> {u}(16u));
  let carry = a_low * b_high + (middle & {u}(0xffffu));
  return a_high * b_high + (middle >> {u}(16u)) + (carry >> {u}(16u));
)";

// Two f32 as f16 bits, rounded to nearest even in integer arithmetic. Normal: rebias the exponent, round the 13 bits that go.
// Subnormal: adding 0.5, whose last place is worth 2^-24, makes the float adder round. 65520 and above become infinity.
constexpr const char* pack_half2_function = R"(fn {name}(x: vec2<f32>) -> u32 {{
  let bits = bitcast<vec2<u32>>(x);
  let magnitude = bits & vec2<u32>(0x7fffffffu);
  let odd = (magnitude >> vec2<u32>(13u)) & vec2<u32>(1u);
  let normal = (magnitude + vec2<u32>(0xc8000fffu) + odd) >> vec2<u32>(13u);
  let subnormal = bitcast<vec2<u32>>(bitcast<vec2<f32>>(magnitude) + vec2<f32>(0.5f)) - vec2<u32>(0x3f000000u);
  let finite = select(normal, subnormal, magnitude < vec2<u32>(0x38800000u));
  let infinite = select(finite, vec2<u32>(0x7c00u), magnitude >= vec2<u32>(0x477ff000u));
  let number = select(infinite, vec2<u32>(0x7e00u), magnitude > vec2<u32>(0x7f800000u));
  let half = number | ((bits >> vec2<u32>(16u)) & vec2<u32>(0x8000u));
  return half.x | (half.y << 16u);
}}
)";

std::string helper_text(const std::string& kind, uint8_t lanes, const std::string& name) {
    using fmt::arg;
    const std::string u = type_name({kir::Scalar::u32, lanes}), i = type_name({kir::Scalar::i32, lanes}),
                      f = type_name({kir::Scalar::f32, lanes});
    if (kind == "to_i32")
        return fmt::format("fn {}(x: {}) -> {} {{\n", name, f, i) +
               fmt::format(fmt::runtime(to_integer_body), arg("u", u), arg("f", f), arg("t", i), arg("low", "-2147483648f"),
                           arg("high", "2147483520f"), arg("most", "2147483647i"), arg("beyond", "2147483648f")) +
               "}\n";
    if (kind == "to_u32")
        return fmt::format("fn {}(x: {}) -> {} {{\n", name, f, u) +
               fmt::format(fmt::runtime(to_integer_body), arg("u", u), arg("f", f), arg("t", u), arg("low", "0f"),
                           arg("high", "4294967040f"), arg("most", "4294967295u"), arg("beyond", "4294967296f")) +
               "}\n";
    if (kind == "mul_high")
        return fmt::format("fn {0}(a: {1}, b: {1}) -> {1} {{\n", name, u) +
               fmt::format(fmt::runtime(mul_high_body), arg("u", u)) + "}\n";
    CHECK(kind == "pack_half2", "no such helper: " + kind);
    return fmt::format(fmt::runtime(pack_half2_function), arg("name", name));
}

}  // namespace

ModuleWriter::ModuleWriter(const kir::Kernel& kernel)
    : kernel_(kernel), features_(features_of(kernel)), texts_(kernel.instructions.size()) {
    for (const kir::Instruction& inst : kernel.instructions)
        if (inst.op == Opcode::atomic) atomic_bindings_.insert(inst.aux);
    for (const kir::Binding& b : kernel.bindings) binding_names_.push_back(names_.unique(b.name));
    for (const kir::Array& a : kernel.arrays) array_names_.push_back(names_.unique(a.name));
    Names members;
    for (const std::string& p : kernel.params) param_names_.push_back(members.unique(p));
    if (!kernel.params.empty()) params_struct_ = names_.unique("Params");
}

std::string ModuleWriter::helper(const std::string& kind, uint8_t lanes) {
    const auto [it, added] = helpers_.try_emplace({kind, lanes});
    if (added) it->second = names_.unique(lanes == 1 ? kind : fmt::format("{}_vec{}", kind, lanes));
    return it->second;
}

std::string ModuleWriter::helpers() const {
    std::string text;
    for (const auto& [key, name] : helpers_) text += helper_text(key.first, key.second, name) + "\n";
    return text;
}

void ModuleWriter::find_builtins() {
    for (const Builtin& b : builtin_table) {
        const bool used = std::any_of(kernel_.instructions.begin(), kernel_.instructions.end(),
                                      [&](const kir::Instruction& inst) { return inst.op == b.op; });
        if (used) builtins_[b.op] = names_.unique(b.name);
    }
}

std::string ModuleWriter::entry_parameters() const {
    std::vector<std::string> parameters;
    for (const Builtin& b : builtin_table) {
        const auto it = builtins_.find(b.op);
        if (it != builtins_.end())
            parameters.push_back(
                fmt::format("@builtin({}) {}: {}", b.name, it->second, kir::is_id_with_axis(b.op) ? "vec3<u32>" : "u32"));
    }
    return fmt::format("{}", fmt::join(parameters, ", "));
}

std::string ModuleWriter::declarations() {
    std::string text;
    const bool f16 = features_.f16_storage || features_.f16_arithmetic;
    if (f16) text += "enable f16;\n";
    if (features_.subgroup) {
        text += "enable subgroups;\n";
        if (builtins_.count(Opcode::subgroup_id)) text += "requires subgroup_id;\n";
        // Kernel IR's verifier proves uniformity over the subgroup; WGSL's analysis knows only the workgroup.
        text += "diagnostic(off, subgroup_uniformity);\n";
    }
    if (!text.empty()) text += "\n";
    for (uint32_t i = 0; i < kernel_.bindings.size(); ++i) {
        const kir::Binding& b = kernel_.bindings[i];
        std::string element = type_name({b.scalar, b.lanes});
        if (atomic_bindings_.count(i)) element = fmt::format("atomic<{}>", element);
        text += fmt::format("@group(0) @binding({}) var<storage, {}> {}: array<{}>;\n", i,
                            b.access == kir::Access::read && !b.in_written_buffer ? "read" : "read_write", binding_names_[i],
                            element);
    }
    if (!param_names_.empty()) {
        text += fmt::format("\nstruct {} {{\n", params_struct_);
        for (const std::string& name : param_names_) text += fmt::format("  {}: u32,\n", name);
        text += fmt::format("}}\n@group(0) @binding({}) var<uniform> params: {};\n", kernel_.bindings.size(), params_struct_);
    }
    text += "\n";
    for (uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
        const kir::Array& a = kernel_.arrays[i];
        if (a.space == kir::ArraySpace::workgroup)
            text += fmt::format("var<workgroup> {}: array<{}, {}>;\n", array_names_[i], type_name(a.type), a.count);
    }
    return text;
}

std::string ModuleWriter::write() {
    find_builtins();
    count_uses();
    for (uint32_t i = 0; i < kernel_.arrays.size(); ++i) {
        const kir::Array& a = kernel_.arrays[i];
        if (a.space == kir::ArraySpace::private_)
            line(fmt::format("var {}: array<{}, {}>;", array_names_[i], type_name(a.type), a.count));
    }
    write_block(kernel_.blocks[0]);
    const auto& size = kernel_.workgroup_size;
    std::string text = declarations();  // names and helpers are known by now
    if (!kernel_.arrays.empty()) text += "\n";
    text += helpers();
    text += fmt::format("@compute @workgroup_size({}, {}, {})\nfn main({}) {{\n", size[0], size[1], size[2], entry_parameters());
    return text + body_ + "}\n";
}

}  // namespace darner::wgsl
