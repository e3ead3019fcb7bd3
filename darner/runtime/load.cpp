// SPDX-License-Identifier: MIT
#include "darner/runtime/load.h"

#include "darner/base/reasons.h"
#include "darner/emit/limits.h"
#include "darner/emit/spirv.h"
#include "darner/emit/wgsl.h"
#include "darner/runtime/caps_override.h"
#include "darner/runtime/devices.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace darner {
namespace {

Result<void> initialise(Session& session, const CompileOptions& options) {
    if (has_seed(session.program())) {
        const std::array<uint32_t, 2> words = {static_cast<uint32_t>(options.seed), static_cast<uint32_t>(options.seed >> 32)};
        TRY(session.write("seed", make_array<uint32_t>({2}, std::span<const uint32_t>(words))));
    }
    if (options.run_init && session.program().find_entry("init") != nullptr) TRY(session.run("init"));
    return {};
}

// SPIR-V asks the device for the memory model and the float mode that it was emitted for, even where the kernel could do without.
bool is_usable(const Caps& emitted_for, const Caps& caps) {
    return emitted_for.code != CodeKind::spirv ||
           ((!emitted_for.vulkan_memory_model || caps.vulkan_memory_model) && (!emitted_for.preserves_nan || caps.preserves_nan));
}

}  // namespace

bool has_seed(const Program& program) {
    const TensorId id = program.find_state("seed");
    return id.valid() && program.tensor(id).dtype == "u32" && program.tensor(id).dims == std::vector<int64_t>{2};
}

Result<void> check_fits(const Program& program, const Caps& caps) {
    Reasons reasons;
    ErrorKind kind = ErrorKind::limit;
    if (const Result<void> fits = verify(program, caps); !fits) reasons.add(fits.error().message);
    const uint32_t planned_rounds = program.caps.max_loop_rounds, rounds_left = caps.max_loop_rounds;
    const bool may_loop = rounds_left == 0 || (planned_rounds != 0 && planned_rounds <= rounds_left);
    for (const KernelCode& kernel : program.kernels) {
        if (const Result<void> fits = check_limits(kernel.kir, caps); !fits && fits.error().kind == ErrorKind::unsupported) {
            reasons.add(fits.error().message);
            kind = ErrorKind::unsupported;
        }
        if (may_loop) continue;
        const std::optional<uint64_t> rounds = kir::total_rounds(kernel.kir);
        if (!rounds || *rounds > rounds_left)
            reasons.add(fmt::format("[kernel {}] its loops run for {} rounds, and this driver ends them after {}",
                                    kernel.kir.name, rounds ? std::to_string(*rounds) : "an unknown number of", rounds_left));
    }
    if (reasons.empty()) return {};
    Error error{kind, fmt::format("the program does not fit the device: {}", reasons.text())};
    error.hint = "compile the graph for this device (darner compile --device), or run it on the device that it was compiled for";
    return error;
}

Result<Caps> caps_to_plan_for(const Device& device, const CompileOptions& options) {
    return lower_caps_by_environment(options.restrict_caps ? options.restrict_caps(device.caps()) : device.caps());
}

Result<void> emit_code(Program& program, const Caps& caps) {
    const bool usable = is_usable(program.caps, caps);
    Reasons reasons;
    for (const KernelCode& kernel : program.kernels)
        if (const Result<void> fits = check_limits(kernel.kir, caps); !fits) reasons.add(fits.error().message);
    if (!reasons.empty()) return unsupported(reasons.text());
    for (KernelCode& kernel : program.kernels) {
        if (caps.code == CodeKind::spirv && (kernel.spirv.empty() || !usable)) {
            TRY(kernel.spirv, emit_spirv(kernel.kir, caps));
        } else if (caps.code == CodeKind::wgsl && kernel.wgsl.empty()) {
            TRY(kernel.wgsl, emit_wgsl(kernel.kir, caps));
        }
    }
    return {};
}

Result<Session> start_session(std::shared_ptr<Device> device, Program program, const CompileOptions& options) {
    const auto shared = std::make_shared<const Program>(std::move(program));
    TRY(std::unique_ptr<Executable> executable, device->load(shared));
    Session session(std::move(device), shared, std::move(executable));
    TRY(initialise(session, options));
    return session;
}

Result<Session> load_program(Program program, const CompileOptions& options) {
    std::shared_ptr<Device> device = options.open;
    if (device == nullptr) {
        TRY(std::unique_ptr<Device> opened, open_device(options.device));
        device = std::move(opened);
    }
    TRY(check_fits(program, device->caps()));
    TRY(emit_code(program, device->caps()));
    return start_session(std::move(device), std::move(program), options);
}

}  // namespace darner
