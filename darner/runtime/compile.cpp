// SPDX-License-Identifier: MIT
// compile(): the pipeline as one readable list.
#include "darner/emit/limits.h"
#include "darner/emit/spirv.h"
#include "darner/emit/wgsl.h"
#include "darner/graph/verify.h"
#include "darner/runtime/caps_override.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/session.h"
#include "darner/transform/transform.h"

#include <algorithm>
#include <array>

namespace darner {

namespace {

Result<void> emit_code(Program& program) {
    for (KernelCode& kernel : program.kernels) {
        TRY(check_limits(kernel.kir, program.caps));
        if (program.caps.code == CodeKind::spirv) {
            TRY(kernel.spirv, emit_spirv(kernel.kir, program.caps));
        } else if (program.caps.code == CodeKind::wgsl) {
            TRY(kernel.wgsl, emit_wgsl(kernel.kir, program.caps));
        }
    }
    return {};
}

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

Result<void> initialise(Session& session, const CompileOptions& options) {
    const std::vector<std::string> state = session.state();
    if (std::find(state.begin(), state.end(), "seed") != state.end()) {
        const std::array<uint32_t, 2> words = {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)};
        TRY(session.write("seed", make_array<uint32_t>({2}, std::span<const uint32_t>(words))));
    }
    if (options.run_init && session.program().find_entry("init") != nullptr) TRY(session.run("init"));
    return {};
}

}  // namespace

Result<Program> compile_program(const Module& module, const Caps& caps, const PlanOptions& options) {
    TRY(verify(module));
    TRY(Module primitives, lower_to_primitives(module));
    TRY(Program program, plan_module(primitives, caps, options));
    TRY(emit_code(program));
    return program;
}

Result<Session> compile(const Module& module, const CompileOptions& options) {
    std::shared_ptr<Device> device = options.open;
    if (device == nullptr) {
        TRY(std::unique_ptr<Device> opened, open_device(options.device));
        device = std::move(opened);
    }
    const Caps wanted = options.restrict_caps ? options.restrict_caps(device->caps()) : device->caps();
    TRY(const Caps caps, lower_caps_by_environment(wanted));
    TRY(Program compiled, compile_program(module, caps, options.plan));
    const auto program = std::make_shared<const Program>(std::move(compiled));
    TRY(std::unique_ptr<Executable> executable, device->load(program));
    Session session(device, program, std::move(executable));
    TRY(initialise(session, options));
    return session;
}

}  // namespace darner
