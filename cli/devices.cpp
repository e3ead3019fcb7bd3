// SPDX-License-Identifier: MIT
// darner devices: what darner can run on here, with the limits and features that plans are made for.
#include "darner/runtime/devices.h"

#include "cli/command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string bytes_text(uint64_t bytes) {
    static constexpr const char* units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = static_cast<double>(bytes);
    size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(units)) {
        value /= 1024;
        ++unit;
    }
    return fmt::format("{:.{}f} {}", value, value == static_cast<double>(static_cast<uint64_t>(value)) ? 0 : 1, units[unit]);
}

std::string coop_text(const CoopShape& shape) {
    return fmt::format("{}x{}x{} {}->{}", shape.m, shape.n, shape.k, kir::to_string(shape.input),
                       kir::to_string(shape.accumulator));
}

std::vector<std::string> features(const Caps& caps) {
    std::vector<std::string> names;
    const auto add = [&](bool present, const char* name) {
        if (present) names.emplace_back(name);
    };
    add(caps.f16_storage, "f16_storage");
    add(caps.f16_arithmetic, "f16_arithmetic");
    add(caps.bf16_coop, "bf16_coop");
    add(caps.subgroup_max > 0, "subgroups");
    add(caps.subgroup_size_control, "subgroup_size_control");
    add(caps.vulkan_memory_model, "vulkan_memory_model");
    add(caps.preserves_nan, "preserves_nan");
    add(!caps.coop_shapes.empty(), "cooperative_matrix");
    return names;
}

Json to_json(const DeviceInfo& info) {
    const Caps& caps = info.caps;
    Json shapes = Json::array();
    for (const CoopShape& shape : caps.coop_shapes) shapes.push_back(coop_text(shape));
    Json limits{{"storage_bindings", caps.max_storage_bindings}, {"binding_bytes", caps.max_binding_bytes},
                {"segment_bytes", caps.max_segment_bytes},       {"offset_alignment", caps.offset_alignment},
                {"workgroup_bytes", caps.max_workgroup_bytes},   {"invocations", caps.max_invocations},
                {"workgroup_size", caps.max_workgroup_size},     {"groups", caps.max_groups}};
    return {{"id", info.id},
            {"name", info.name},
            {"kind", to_string(caps.kind)},
            {"driver", info.driver},
            {"api_version", info.api_version},
            {"memory_bytes", caps.memory_bytes},
            {"compute_units", caps.compute_units},
            {"subgroup_sizes", {caps.subgroup_min, caps.subgroup_max}},
            {"limits", std::move(limits)},
            {"features", features(caps)},
            {"cooperative_matrices", std::move(shapes)}};
}

void print(const DeviceInfo& info) {
    const Caps& caps = info.caps;
    fmt::print("{}  {}\n", info.id, info.name);
    fmt::print("  kind       {}, {} compute units\n", to_string(caps.kind), caps.compute_units);
    if (!info.driver.empty())
        fmt::print("  driver     {}{}\n", info.driver, info.api_version.empty() ? "" : ", API " + info.api_version);
    fmt::print("  memory     {}\n", caps.memory_bytes == 0 ? "not known" : bytes_text(caps.memory_bytes));
    fmt::print("  limits     {} bindings of {}, buffers of {}, {} of workgroup memory, {} invocations a workgroup\n",
               caps.max_storage_bindings, bytes_text(caps.max_binding_bytes), bytes_text(caps.max_segment_bytes),
               bytes_text(caps.max_workgroup_bytes), caps.max_invocations);
    if (caps.subgroup_max > 0) fmt::print("  subgroups  {} to {} wide\n", caps.subgroup_min, caps.subgroup_max);
    const std::vector<std::string> names = features(caps);
    if (!names.empty()) fmt::print("  features   {}\n", fmt::join(names, ", "));
    std::string shapes;
    for (const CoopShape& shape : caps.coop_shapes) shapes += (shapes.empty() ? "" : ", ") + coop_text(shape);
    if (!shapes.empty()) fmt::print("  matrices   {}\n", shapes);
}

Result<void> show_devices(bool json) {
    TRY(const std::vector<DeviceInfo> devices, list_devices());
    if (json) {
        Json out = Json::array();
        for (const DeviceInfo& info : devices) out.push_back(to_json(info));
        fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
        return {};
    }
    for (const DeviceInfo& info : devices) print(info);
    return {};
}

}  // namespace

void add_devices(CommandLine& line) {
    auto json = std::make_shared<bool>(false);
    CLI::App& command =
        line.add(line.app, "devices", "List the devices that are present, the best first", "darner devices --json");
    add_json(command, *json);
    line.on_run(command, [json] { return show_devices(*json); });
}

}  // namespace darner::cli
