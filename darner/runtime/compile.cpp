// SPDX-License-Identifier: MIT
// compile(): the pipeline as one readable list.
#include "darner/graph/verify.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/load.h"
#include "darner/transform/transform.h"

namespace darner {

namespace {

Result<Module> lower_to_primitives(const Module& module) {
    TRY(Module split, extract_init(module));
    Module out;
    for (const Graph& graph : split.graphs) {
        TRY(Graph expanded, expand(graph));
        TRY(Graph clean, cleanup(expanded));
        out.graphs.push_back(std::move(clean));
    }
    TRY(verify(out));
    return out;
}

}  // namespace

Result<Program> plan_program(const Module& module, const Caps& caps, const PlanOptions& options) {
    TRY(verify(module));
    TRY(Module primitives, lower_to_primitives(module));
    return plan_module(primitives, caps, options);
}

Result<Program> compile_program(const Module& module, const Caps& caps, const PlanOptions& options) {
    TRY(Program program, plan_program(module, caps, options));
    TRY(emit_code(program, caps));
    return program;
}

Result<Session> compile(const Module& module, const CompileOptions& options) {
    std::shared_ptr<Device> device = options.open;
    if (device == nullptr) {
        TRY(std::unique_ptr<Device> opened, open_device(options.device));
        device = std::move(opened);
    }
    TRY(const Caps caps, caps_to_plan_for(*device, options));
    TRY(Program compiled, compile_program(module, caps, options.plan));
    return start_session(std::move(device), std::move(compiled), options);
}

}  // namespace darner
