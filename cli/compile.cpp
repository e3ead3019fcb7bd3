// SPDX-License-Identifier: MIT
// darner compile: graphs to a .dp file, for the least that a target grants or for a device that is present; and the kernels as
// text or machine code, a file each.
#include "cli/command.h"
#include "cli/graph_file.h"
#include "cli/targets.h"
#include "darner/base/bytes.h"
#include "darner/base/files.h"
#include "darner/emit/spirv.h"
#include "darner/emit/wgsl.h"
#include "darner/kir/text.h"
#include "darner/program/dp.h"
#include "darner/runtime/devices.h"
#include "darner/runtime/load.h"
#include "darner/runtime/session.h"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompileCommand {
    std::string file, target, device, output, emit, out_dir;
    std::vector<std::string> dims;
    bool json = false;
};

Result<Caps> caps_for(const CompileCommand& options) {
    if (options.target.empty() == options.device.empty())
        return with_hint(invalid("darner compile needs either --target or --device"),
                         "--target vulkan runs on every Vulkan device, --device D makes the best of one that is here");
    if (options.device.empty()) return target_caps(options.target);
    TRY(const std::unique_ptr<Device> device, open_device(options.device));
    return caps_to_plan_for(*device);
}

// "k007_map_add.wgsl": the number is that of the kernel in the program.
std::string kernel_file_name(size_t number, std::string_view name, std::string_view extension) {
    std::string plain;
    for (const char c : name.substr(0, 60)) plain += std::isalnum(static_cast<unsigned char>(c)) != 0 ? c : '_';
    return fmt::format("k{:03}_{}.{}", number, plain, extension);
}

Result<std::vector<std::byte>> code_of(const KernelCode& kernel, const Caps& caps, const std::string& language) {
    const auto bytes = [](std::span<const std::byte> code) { return std::vector<std::byte>(code.begin(), code.end()); };
    if (language == "kir") return bytes(bytes_of(kir::to_text(kernel.kir)));
    if (language == "wgsl") {
        if (!kernel.wgsl.empty()) return bytes(bytes_of(kernel.wgsl));
        TRY(const std::string text, emit_wgsl(kernel.kir, caps));
        return bytes(bytes_of(text));
    }
    if (!kernel.spirv.empty()) return bytes(std::as_bytes(std::span(kernel.spirv)));
    TRY(const std::vector<uint32_t> words, emit_spirv(kernel.kir, caps));
    return bytes(std::as_bytes(std::span(words)));
}

Result<std::vector<std::string>> write_kernels(const CompileCommand& options, const Program& program) {
    TRY(make_folder(options.out_dir));
    std::vector<std::string> files;
    for (size_t i = 0; i < program.kernels.size(); ++i) {
        TRY(const std::vector<std::byte> code, code_of(program.kernels[i], program.caps, options.emit));
        const std::string extension = options.emit == "spirv" ? "spv" : options.emit;
        files.push_back(options.out_dir + "/" + kernel_file_name(i, program.kernels[i].kir.name, extension));
        TRY(write_file(files.back(), code));
    }
    return files;
}

Result<void> compile_file(const CompileCommand& options) {
    if (options.output.empty() && options.emit.empty())
        return with_hint(invalid("darner compile has nothing to write"), "name the program file with -o FILE.dp");
    if (options.emit.empty() != options.out_dir.empty())
        return with_hint(invalid("--emit and --out-dir go together"),
                         "--emit kir|spirv|wgsl --out-dir DIR writes a file a kernel");
    std::error_code ignored;
    if (std::filesystem::equivalent(options.file, options.output, ignored))
        return with_hint(invalid("the program file would replace the graph file", options.output), "give -o another name");
    TRY(const Caps caps, caps_for(options));
    TRY(const Module module, read_module(options.file));
    if (module.graphs.empty()) return invalid("there is no graph in the file", options.file);
    TRY(const SymbolBindings bindings, parse_dim_options(options.dims));
    TRY(const Module bound, bind_module(module, bindings));
    TRY(const Program program, compile_program(bound, caps));

    std::vector<std::string> files;
    if (!options.emit.empty()) {
        TRY(files, write_kernels(options, program));
    }
    if (!options.output.empty()) TRY(write_dp(options.output, program));

    uint64_t state_bytes = 0, memory_bytes = 0;
    for (const Segment& segment : program.segments) {
        memory_bytes += segment.bytes * segment.slots;
        if (segment.kind == SegmentKind::state) state_bytes += segment.bytes;
    }
    if (options.json) {
        Json out{{"file", options.output},     {"kernels", program.kernels.size()}, {"features", required_features(program)},
                 {"state_bytes", state_bytes}, {"memory_bytes", memory_bytes},      {"graphs", Json::array()},
                 {"kernel_files", files}};
        for (const PlanReport& report : program.reports)
            out["graphs"].push_back({{"name", report.entry}, {"dispatches", report.dispatches}, {"barriers", report.barriers}});
        fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
        return {};
    }
    for (const PlanReport& report : program.reports)
        fmt::print("{}: {} dispatches, {} barriers\n", printable(report.entry), report.dispatches, report.barriers);
    fmt::print("{} kernels, {} bytes of memory, {} of them state\n", program.kernels.size(), memory_bytes, state_bytes);
    if (!options.output.empty()) fmt::print("-> {}\n", printable(options.output));
    if (!files.empty()) fmt::print("-> {} files in {}\n", files.size(), printable(options.out_dir));
    return {};
}

}  // namespace

void add_compile(CommandLine& line) {
    auto options = std::make_shared<CompileCommand>();
    CLI::App& command = line.add(line.app, "compile", "Compile a graph file to a program file that any darner runs",
                                 "darner compile model.dg --target vulkan -o model.dp\n"
                                 "darner compile model.dg --target webgpu -o model.dp --emit wgsl --out-dir shaders\n"
                                 "darner run model.dp --fill random:1");
    command.add_option("FILE", options->file, "Graph file (.dg); - is standard input")->required()->type_name("");
    command
        .add_option("--target", options->target,
                    "Compile for the least that every device of a kind has: vulkan or webgpu; h200 is that GPU")
        ->check(one_of(target_names()))
        ->type_name("T");
    command.add_option("--device", options->device, "Compile for a device that is here, with all that it has")->type_name("D");
    command.add_option("-o,--output", options->output, "Program file to write (.dp)")->type_name("FILE.dp");
    command.add_option("--emit", options->emit, "Write each kernel to a file of its own: kir, spirv or wgsl")
        ->check(one_of({"kir", "spirv", "wgsl"}))
        ->type_name("CODE");
    command.add_option("--out-dir", options->out_dir, "Where --emit writes; made if need be")->type_name("DIR");
    command.add_option("--dim", options->dims, "Value of a symbol in the dims; repeat for more")
        ->allow_extra_args(false)
        ->type_name("NAME=N");
    add_json(command, options->json);
    line.on_run(command, [options] { return compile_file(*options); });
}

}  // namespace darner::cli
