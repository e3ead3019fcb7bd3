// SPDX-License-Identifier: MIT
// darner op check: the table test of the ops on a device. Each op's value and gradients are compared with the f64
// reference and with central differences; any failure makes the command fail.
#include "darner/runtime/op_check.h"
#include "cli/command.h"
#include "cli/progress.h"
#include "darner/graph/op_def.h"
#include "darner/runtime/devices.h"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CheckOptions {
    std::vector<std::string> names;
    std::string device;
    bool json = false;
};

// Each once. All names are looked up before the first check: a slip at the end should not cost minutes.
Result<std::vector<std::string>> names_to_check(const std::vector<std::string>& wanted) {
    std::vector<std::string> names;
    for (const std::string& name : wanted) {
        if (op_registry().find(name) != nullptr) {
            if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
            continue;
        }
        const std::string near = op_registry().nearest(name);
        return with_hint(invalid(fmt::format("[op check] there is no op \"{}\"", name)),
                         near.empty() ? "darner op list shows all" : fmt::format("did you mean \"{}\"?", near));
    }
    if (names.empty())
        for (const OpDef* op : op_registry().all()) names.emplace_back(op->name);
    return names;
}

void print(const OpCheckReport& report, bool json) {
    if (json) {
        const Json line{{"op", report.op},
                        {"ok", report.ok},
                        {"cases", report.cases},
                        {"worst_ratio", report.worst_ratio},
                        {"failures", report.failures}};
        fmt::print("{}\n", line.dump(-1, ' ', false, Json::error_handler_t::replace));
    } else {
        fmt::print("{:<14} {}  {} cases, error at most {:.2g} of the bound\n", report.op, report.ok ? "ok    " : "FAILED",
                   report.cases, report.worst_ratio);
        for (const std::string& failure : report.failures) fmt::print("    {}\n", printable(failure));
    }
    std::fflush(stdout);
}

Result<void> check_ops(const CheckOptions& options) {
    TRY(const std::vector<std::string> names, names_to_check(options.names));
    std::unique_ptr<Device> device;
    if (options.device != "none") {
        TRY(device, open_device(options.device));
    }
    if (!options.json)
        fmt::print("checking {} op{} {}\n", names.size(), names.size() == 1 ? "" : "s",
                   device == nullptr ? std::string("on the reference alone") : "on " + device->info().name);
    Progress progress(!options.json);
    size_t failed = 0, done = 0;
    for (const std::string& name : names) {
        progress.update(done++, names.size(), name);
        TRY(const OpCheckReport report, check_op(name, device.get()));
        progress.clear();
        print(report, options.json);
        if (!report.ok) ++failed;
    }
    if (failed > 0) return invalid(fmt::format("[op check] {} of {} ops failed", failed, names.size()));
    if (!options.json) fmt::print("all {} passed\n", names.size());
    return {};
}

}  // namespace

void add_op_check(CommandLine& line, CLI::App& op) {
    auto options = std::make_shared<CheckOptions>();
    CLI::App& command = line.add(op, "check", "Compare ops and their gradients with the f64 reference on a device",
                                 "darner op check softmax rms_norm\ndarner op check --device interp");
    command.add_option("NAME", options->names, "Ops to check; all if left out")->type_name("");
    add_device(command, options->device);
    command.get_option("--device")
        ->description(command.get_option("--device")->get_description() + "; none checks the reference alone");
    add_json(command, options->json);
    line.on_run(command, [options] { return check_ops(*options); });
}

}  // namespace darner::cli
