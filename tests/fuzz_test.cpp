// SPDX-License-Identifier: MIT
// Random graphs from gradients to devices, against the f64 reference. DARNER_FUZZ=N sets how many (20,000 for a long run),
// DARNER_FUZZ_FROM=SEED where they start. A failure is shrunk and printed as text with its seed. A crash ends the run and tells
// the seed; with DARNER_FUZZ_FORK=1 each check runs in a process of its own, and crashes are shrunk like all else.
#include "darner/graph/text.h"
#include "tests/fuzz_check.h"
#include "tests/fuzz_graphs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>

namespace darner::test {
namespace {

uint64_t number_in(const char* variable, uint64_t otherwise) {
    const char* text = std::getenv(variable);
    return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

using Check = std::function<FuzzResult(const Graph&, const NamedTensors&)>;

constexpr uint64_t graphs_in_ci = 300;
uint64_t graph_count() { return number_in("DARNER_FUZZ", graphs_in_ci); }
bool in_children() { return std::getenv("DARNER_FUZZ_FORK") != nullptr; }
uint64_t first_seed() { return number_in("DARNER_FUZZ_FROM", 0); }

volatile uint64_t current_seed = 0;

// Only what may be called in a signal handler.
void tell_seed(int) {
    char text[64] = "the seed is ";
    size_t end = 12;
    for (uint64_t scale = 10000000000000000000u; scale > 0; scale /= 10)
        if (const uint64_t digit = current_seed / scale % 10; digit > 0 || end > 12 || scale == 1)
            text[end++] = static_cast<char>('0' + digit);
    text[end++] = '\n';
    if (write(STDERR_FILENO, text, end) < 0) std::_Exit(1);
    std::_Exit(134);
}

// The result of a check that ran in a child; one that crashed is bad.
FuzzResult run_in_child(const Check& check, const Graph& graph, const NamedTensors& leaves) {
    int ends[2];
    if (pipe(ends) != 0) return {Verdict::bad, "no pipe"};
    const pid_t child = fork();
    if (child == 0) {
        const FuzzResult result = check(graph, leaves);
        const std::string line = static_cast<char>('0' + static_cast<int>(result.verdict)) + result.text.substr(0, 4000);
        std::_Exit(write(ends[1], line.data(), line.size()) == static_cast<ssize_t>(line.size()) ? 0 : 1);
    }
    close(ends[1]);
    std::string line;
    char buffer[4096];
    for (ssize_t n = 0; (n = read(ends[0], buffer, sizeof buffer)) > 0;) line.append(buffer, static_cast<size_t>(n));
    close(ends[0]);
    int status = 0;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0 || line.empty()) return {Verdict::bad, "crashed"};
    return {static_cast<Verdict>(line[0] - '0'), line.substr(1)};
}

// The same seed with fewer nodes and smaller dims where that still fails, then the graph itself made smaller.
std::string report(FuzzOptions options, const Check& check, const std::string& first) {
    const auto fails = [&](const Graph& graph, const NamedTensors& leaves) {
        return check(graph, leaves).verdict == Verdict::bad;
    };
    const uint64_t seed = options.seed;
    FuzzCase start = *random_case(options);
    for (const int nodes : {2, 4, 8, 12})
        for (const int64_t extent : {2, 3, 7, 31}) {
            options.max_nodes = nodes;
            options.max_extent = extent;
            const auto smaller = random_case(options);
            if (!smaller || smaller->graph.nodes.size() >= start.graph.nodes.size()) continue;
            if (fails(smaller->graph, smaller->leaves)) start = *smaller;
        }
    // Gradients belong to their loss: cutting the graph apart would make them wrong.
    const Shrunk small = options.for_differences ? Shrunk{start.graph, start.leaves} : shrink(start.graph, start.leaves, fails);
    std::string values;
    for (const auto& [name, tensor] : small.leaves) {
        if (small.graph.find_input(name) == nullptr && small.graph.find_param(name) == nullptr) continue;
        std::vector<double> elements;
        for (int64_t i = 0; i < std::min<int64_t>(tensor.count(), 64); ++i) elements.push_back(tensor.at(i));
        values += fmt::format("# {} = {}{}\n", name, elements, tensor.count() > 64 ? " and more" : "");
    }
    return fmt::format("seed {} (DARNER_FUZZ=1 DARNER_FUZZ_FROM={}): {}\nshrunk: {}\n{}{}", seed, seed, first,
                       check(small.graph, small.leaves).text, to_text(small.graph), values);
}

class Fuzz : public testing::Test {
protected:
    // Checks each graph; at most `most_failures` are shrunk and printed. Too many unsuitable graphs would be an idle test.
    void run(uint64_t stride, const std::function<std::vector<Check>(uint64_t seed)>& checks_of, bool for_differences = false) {
        std::signal(SIGABRT, tell_seed);
        std::signal(SIGSEGV, tell_seed);
        constexpr int most_failures = 5;
        uint64_t graphs = 0, checked = 0, unsuitable = 0;
        int failures = 0;
        std::map<std::string, int> reasons;
        for (uint64_t seed = first_seed(); seed < first_seed() + graph_count(); seed += stride) {
            current_seed = seed;
            const auto drawn = random_case({.seed = seed, .for_differences = for_differences});
            ASSERT_TRUE(drawn) << "seed " << seed << ": " << drawn.error().text();
            ++graphs;
            for (const Check& check : checks_of(seed)) {
                const Check one = !in_children() ? check : [&check](const Graph& graph, const NamedTensors& leaves) {
                    return run_in_child(check, graph, leaves);
                };
                const FuzzResult result = one(drawn->graph, drawn->leaves);
                ++checked;
                if (result.verdict == Verdict::unsuitable) {
                    ++unsuitable;
                    ++reasons[result.text.substr(0, result.text.find(':'))];
                    break;
                }
                if (result.verdict != Verdict::bad) continue;
                ADD_FAILURE() << report({.seed = seed, .for_differences = for_differences}, one, result.text);
                if (++failures == most_failures) return;
                break;
            }
        }
        std::string why;
        for (const auto& [reason, count] : reasons) why += fmt::format(" {} {}", count, reason);
        RecordProperty("checked", static_cast<int>(checked));
        fmt::print("{} graphs, {} checks, {} graphs unsuitable:{}\n", graphs, checked, unsuitable, why);
        EXPECT_LE(unsuitable * 3, graphs) << why;
    }
};

TEST_F(Fuzz, DevicesAgreeWithTheReference) {
    setenv("DARNER_POISON", "1", 1);
    const std::vector<DeviceCase> all = device_cases();
    run(1, [&](uint64_t seed) {
        // The full checks of the interpreter each time; another of the devices in turn.
        std::vector<Check> checks;
        for (const size_t i : {size_t{0}, 1 + static_cast<size_t>(seed % (all.size() - 1))})
            checks.emplace_back(
                [&all, i](const Graph& g, const NamedTensors& leaves) { return fuzz_on_device(g, leaves, all[i]); });
        return checks;
    });
}

TEST_F(Fuzz, GradientsAreThoseOfCentralDifferences) {
    run(
        1, [](uint64_t) { return std::vector<Check>{fuzz_gradients}; }, true);
}

TEST_F(Fuzz, EveryOpIsDrawn) {
    std::set<std::string> missing;
    for (const OpDef* op : op_registry().all()) missing.emplace(op->name);
    for (uint64_t seed = 0; seed < graphs_in_ci; ++seed) {
        const auto drawn = random_case({seed});
        ASSERT_TRUE(drawn) << drawn.error().text();
        for (const std::string& op : drawn->ops) missing.erase(op);
    }
    EXPECT_TRUE(missing.empty()) << fmt::format("{}", fmt::join(missing, ", "));
}

}  // namespace
}  // namespace darner::test
