// SPDX-License-Identifier: MIT
#include "cli/run_values.h"

#include "cli/command.h"
#include "cli/graph_file.h"
#include "darner/base/files.h"
#include "darner/base/nearest.h"
#include "darner/runtime/load.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>

namespace darner::cli {
namespace {

Result<std::map<std::string, std::string>> parse_sets(const std::vector<std::string>& sets, const std::vector<Leaf>& leaves) {
    std::map<std::string, std::string> files;
    std::vector<std::string> names;
    for (const Leaf& leaf : leaves) names.push_back(leaf.name);
    for (const std::string& text : sets) {
        TRY(auto pair, split_pair("--set", text, "NAME=FILE.npy"));
        if (std::find(names.begin(), names.end(), pair.first) == names.end()) {
            const std::string near = did_you_mean(pair.first, names);
            return with_hint(invalid(fmt::format("[--set] the graph has no input or param \"{}\"", pair.first)),
                             near.empty() ? fmt::format("it has {}", fmt::join(names, ", ")) : near);
        }
        if (!files.emplace(pair).second) return invalid(fmt::format("[--set] \"{}\" is given twice", pair.first));
    }
    return files;
}

Result<void> write_files(const std::string& folder, std::vector<Shown>& results) {
    TRY(make_folder(folder));
    for (Shown& shown : results) {
        if (shown.is_update) continue;
        shown.file = folder + "/" + file_name(shown.name);
        TRY(write_value(shown.file, shown.value));
    }
    return {};
}

Result<void> print_text(const std::string& graph, const DeviceInfo& device, const std::vector<Shown>& results) {
    size_t width = 0;
    for (const Shown& shown : results) width = std::max(width, printable(shown.name).size());
    fmt::print("{} on {} ({})\n", printable(graph), device.name, device.id);
    for (const Shown& shown : results) {
        TRY(const Summary summary, summarize(shown.value));
        fmt::print("{:<{}}  {}  {}{}{}\n", printable(shown.name), width, type_text(shown.value),
                   shown.is_update ? "becomes " : "", to_text(summary),
                   shown.file.empty() ? "" : "  -> " + printable(shown.file));
    }
    return {};
}

Result<void> print_json(const std::string& graph, const DeviceInfo& device, const std::vector<Shown>& results) {
    using Json = nlohmann::ordered_json;
    Json out{{"graph", graph}, {"device", device.id}, {"outputs", Json::array()}, {"updates", Json::array()}};
    for (const Shown& shown : results) {
        TRY(const Summary summary, summarize(shown.value));
        Json item{
            {"name", shown.name}, {"dtype", shown.value.dtype}, {"shape", shown.value.dims}, {"first", summary.first},
            {"min", summary.min}, {"max", summary.max},         {"mean", summary.mean},      {"not_finite", summary.not_finite}};
        if (!shown.file.empty()) item["file"] = shown.file;
        out[shown.is_update ? "updates" : "outputs"].push_back(std::move(item));
    }
    fmt::print("{}\n", out.dump(-1, ' ', false, Json::error_handler_t::replace));
    return {};
}

}  // namespace

Result<Given> gather_values(const RunOptions& options, const std::vector<Leaf>& leaves) {
    TRY(const auto files, parse_sets(options.sets, leaves));
    Given given;
    if (!options.fill.empty()) {
        TRY(given.fill, parse_fill(options.fill));
    }
    std::vector<std::string> unset;
    for (const Leaf& leaf : leaves) {
        NamedArrays& values = leaf.is_param ? given.params : given.inputs;
        if (const auto file = files.find(leaf.name); file != files.end()) {
            TRY(values[leaf.name], read_value(file->second, leaf.name, leaf.type));
        } else if (leaf.may_stay_unset) {
            continue;
        } else if (given.fill) {
            given.to_fill.push_back(leaf);
        } else {
            unset.push_back(fmt::format("{} ({} {})", leaf.name, leaf.is_param ? "param" : "input", to_string(leaf.type)));
        }
    }
    if (unset.empty()) return given;
    return with_hint(invalid(fmt::format("[run] {} {} not set: {}", unset.size(), unset.size() == 1 ? "value is" : "values are",
                                         fmt::join(unset, ", "))),
                     "set each with --set NAME=FILE.npy, or all the rest with --fill random:SEED");
}

Result<void> fill_values(Given& given) {
    for (const Leaf& leaf : given.to_fill) {
        NamedArrays& values = leaf.is_param ? given.params : given.inputs;
        TRY(values[leaf.name], fill(*given.fill, leaf.name, leaf.type));
    }
    return {};
}

Result<void> write_params(Session& session, const NamedArrays& params) {
    const std::vector<std::string> state = session.state();
    for (const auto& [name, value] : params)
        if (std::find(state.begin(), state.end(), name) != state.end()) TRY(session.write(name, value));  // else nothing reads it
    return {};
}

Result<void> set_state(Session& session, const RunOptions& options, const Given& given, bool run_init) {
    TRY(write_params(session, given.params));
    if (!run_init) return {};
    TRY(session.run("init"));
    TRY(write_params(session, given.params));
    if (!options.seed || given.params.contains("seed") || !has_seed(session.program())) return {};
    const std::array<uint32_t, 2> words = {static_cast<uint32_t>(*options.seed), static_cast<uint32_t>(*options.seed >> 32)};
    return write_params(session, {{"seed", make_array<uint32_t>({2}, std::span<const uint32_t>(words))}});
}

Result<void> show_results(const RunOptions& options, const std::string& graph, const DeviceInfo& device,
                          std::vector<Shown> results) {
    if (!options.out_dir.empty()) TRY(write_files(options.out_dir, results));
    return options.json ? print_json(graph, device, results) : print_text(graph, device, results);
}

}  // namespace darner::cli
