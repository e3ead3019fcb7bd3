// SPDX-License-Identifier: MIT
// Prints docs/estimates.md: what the model of plan/estimate.h expects of an H200 for each row of the figures to beat, before any
// kernel is tuned, beside what the row must reach and is to reach. The numbers depend on the planner alone, never on a clock; how
// long planning itself takes goes to stderr.
#include "darner/graph/text.h"
#include "darner/nn/models.h"
#include "darner/nn/training.h"
#include "darner/ops/ops.h"
#include "darner/plan/estimate.h"
#include "darner/runtime/load.h"
#include "darner/transform/transform.h"
#include "darner/transform/vjp.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>

namespace darner {
namespace {

enum class Precision { f32, bf16, bf16_products };  // inputs in bf16; or a graph of f32 whose products get bf16 operands

struct Row {
    std::string work;
    Module module;
    double must = 0, target = 0;  // microseconds
    Precision precision = Precision::f32;
};

// What matrix units reach with half-precision operands, measured with this project's kernels (docs/coop-gemm.md).
constexpr double matrix_flops = 274e12;

// Operands of products in bf16, all else as it is: the products of a bf16 policy, with activations and updates still in f32.
Result<Graph> with_bf16_products(const Graph& graph) {
    TRY(const Graph expanded, expand(graph));
    Builder builder(expanded.name);
    GraphCopier copier(expanded, builder);
    for (size_t i = 0; i < expanded.nodes.size(); ++i) {
        const NodeId id(i);
        const Node& node = expanded.node(id);
        if (node.kind != NodeKind::op || node.op->name != std::string_view("dot")) {
            copier.copy(id);
            continue;
        }
        std::vector<Value> operands = copier.operands(node);
        for (Value& operand : operands) operand = cast(operand, DType::bf16);
        copier[id] = cast(builder.call_exact(*node.op, operands, node.attrs), node.type.dtype);
    }
    copier.copy_outputs();
    copier.copy_updates();
    return builder.finish();
}

Result<Module> prepared(Module module, Precision precision) {
    if (precision != Precision::bf16_products) return module;
    TRY(module, extract_init(std::move(module)));
    for (Graph& graph : module.graphs) {
        TRY(graph, with_bf16_products(graph));
    }
    return module;
}

Result<Module> matmul_module(int64_t n, const char* dtype) {
    return parse_module(fmt::format(
        "graph step {{\n  a = input {1}[{0},{0}]\n  b = input {1}[{0},{0}]\n  output y = matmul(a, b)\n}}", n, dtype));
}

Result<Module> rms_norm_module(int64_t rows, int64_t cols) {
    TRY(Module module, parse_module(fmt::format("graph step {{\n  x = input f32[{0},{1}]\n  w = input f32[{1}]\n"
                                                "  output y = rms_norm(x, w)\n}}",
                                                rows, cols)));
    const std::vector<std::string> wrt = {"x", "w"};
    TRY(module.graphs[0], gradient_graph(module.graphs[0], "y", wrt));
    return module;
}

Result<Module> mlp_module() {
    Builder b;
    const std::vector<int64_t> hidden = {128};
    const Value logits = mlp(b.input("x", f32({32, 784})), hidden, 10);
    return training_step(cross_entropy(logits, b.input("y", i32({32}))), sgd());
}

Result<Module> decoder_module(int64_t batch, int64_t seq, bool training) {
    Builder b("step");
    const Value tokens = b.input("tokens", i32({batch, seq}));
    const Value logits = decoder(tokens, smollm2_135m());
    if (training) return training_step(next_token_loss(logits, tokens), adamw());
    b.output("logits", logits);
    TRY(Graph graph, b.finish());
    std::vector<Graph> graphs;
    graphs.push_back(std::move(graph));
    return make_module(std::move(graphs));
}

// The time of a square product at a rate in TFLOP/s.
double product_time(double n, double tera) { return 2 * n * n * n / (tera * 1e12) * 1e6; }

Result<std::vector<Row>> make_rows() {
    std::vector<Row> rows;
    const auto add = [&](std::string work, Result<Module> module, double must, double target,
                         Precision precision = Precision::f32) -> Result<void> {
        TRY(Module made, std::move(module));
        rows.push_back({std::move(work), std::move(made), must, target, precision});
        return {};
    };
    TRY(add("matmul f32 4096", matmul_module(4096, "f32"), product_time(4096, 0.6 * 49.7), product_time(4096, 0.9 * 49.7)));
    TRY(add("matmul f32 8192", matmul_module(8192, "f32"), product_time(8192, 0.6 * 50.6), product_time(8192, 0.9 * 50.6)));
    TRY(add("matmul f32 1024", matmul_module(1024, "f32"), 90, 56));
    TRY(add("matmul bf16 4096", matmul_module(4096, "bf16"), product_time(4096, 280), product_time(4096, 400), Precision::bf16));
    TRY(add("matmul bf16 8192", matmul_module(8192, "bf16"), product_time(8192, 280), product_time(8192, 400), Precision::bf16));
    TRY(add("matmul bf16 1024", matmul_module(1024, "bf16"), 14, 9, Precision::bf16));
    TRY(add("RMSNorm forward+backward 4096x4096 f32", rms_norm_module(4096, 4096), 120, 95));
    TRY(add("RMSNorm forward+backward 16384x1024 f32", rms_norm_module(16384, 1024), 120, 95));
    TRY(add("RMSNorm forward+backward 512x576 f32", rms_norm_module(512, 576), 30, 12));
    TRY(add("MLP 784-128-10, batch 32, SGD step", mlp_module(), 60, 25));
    struct Decoder {
        const char* shape;
        int64_t batch, seq;
        bool training;
        double must_f32, target_f32, must_bf16, target_bf16;
    };
    for (const Decoder& d :
         {Decoder{"1x128", 1, 128, false, 4280, 2100, 2329, 1200}, Decoder{"8x512", 8, 512, false, 39297, 30000, 12000, 8900},
          Decoder{"1x128", 1, 128, true, 12806, 6400, 6216, 4500}, Decoder{"8x512", 8, 512, true, 111831, 55000, 25000, 16800}}) {
        const std::string work = fmt::format("SmolLM2-135M {} {}", d.training ? "training step" : "forward", d.shape);
        TRY(add(work + " f32", decoder_module(d.batch, d.seq, d.training), d.must_f32, d.target_f32));
        TRY(add(work + " bf16", decoder_module(d.batch, d.seq, d.training), d.must_bf16, d.target_bf16,
                Precision::bf16_products));
    }
    return rows;
}

// "row[mul+sum]": the label without its provenance.
std::string kind_of(const std::string& label) { return label.substr(0, label.find("] ") + (label.find("] ") != label.npos)); }

struct Kind {
    double seconds = 0;
    uint64_t bytes = 0, flops = 0;
    uint32_t groups = 0;
};

// The groups that cost most, by the kind of their longest member.
std::string costly_groups(const EntryEstimate& expected) {
    std::map<std::string, Kind> kinds;
    for (const GroupEstimate& group : expected.groups) {
        const auto longest = std::max_element(group.members.begin(), group.members.end(),
                                              [](const auto& a, const auto& b) { return a.seconds < b.seconds; });
        Kind& kind = kinds[kind_of(longest->label)];
        kind.seconds += group.seconds;
        ++kind.groups;
        for (const DispatchEstimate& member : group.members) {
            kind.bytes += member.bytes;
            kind.flops += member.flops;
        }
    }
    std::vector<std::pair<std::string, Kind>> order(kinds.begin(), kinds.end());
    std::stable_sort(order.begin(), order.end(),
                     [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
    std::string text = "| groups | us | share | MB | GFLOP | longest member |\n|---|---|---|---|---|---|\n";
    for (size_t i = 0; i < std::min<size_t>(order.size(), 6); ++i) {
        const auto& [name, kind] = order[i];
        const std::string shown = name.size() > 90 ? name.substr(0, 87) + "..." : name;
        text += fmt::format("| {} | {:.1f} | {:.0f} % | {:.1f} | {:.2f} | {} |\n", kind.groups, kind.seconds * 1e6,
                            100 * kind.seconds / expected.seconds, double(kind.bytes) / 1e6, double(kind.flops) / 1e9, shown);
    }
    return text;
}

constexpr const char* introduction = R"(# Estimates

Expected times on one NVIDIA H200 of the plans that darner makes today, from `bench/estimates.cpp`: predictions, not measurements.
The model stands in `darner/plan/estimate.h`: bytes at 4.1 TB/s, f32 arithmetic at 50 TFLOP/s, products of bf16 operands at
274 TFLOP/s, 2.5 us a barrier group, 0.2 us a dispatch, 0.3 us for each load that waits for the one before. The same for any graph:
`darner plan FILE.dg --estimate`.

*Must* and *target* are the project's own figures to beat. Rates of products are those of a kernel that fills the device; today's
kernels do not have them yet. A bf16 row of a network has the operands of its products cast to bf16, and all else in f32.
)";

constexpr const char* missing = R"(
Rows that today's ops do not allow: ResNet-50 (there is no convolution yet), products by `split` (no such policy yet). The
attention of SmolLM2 is made of primitives: its scores go through memory.
)";

std::string verdict(double microseconds, const Row& row) {
    if (microseconds <= row.target) return "meets the target";
    return microseconds <= row.must ? "meets must, exceeds the target" : "exceeds must";
}

Result<void> print_page() {
    TRY(const std::vector<Row> rows, make_rows());
    std::string table =
        "\n| work | groups | dispatches | MB | GFLOP | expected us | must | target | |\n|---|---|---|---|---|---|---|---|---|\n";
    std::string details;
    for (const Row& row : rows) {
        const auto start = std::chrono::steady_clock::now();
        TRY(const Module module, prepared(row.module, row.precision));
        TRY(const Program program, plan_program(module, h200_caps()));
        const std::chrono::duration<double> planning = std::chrono::steady_clock::now() - start;
        fmt::print(stderr, "{}: planned in {:.2f} s\n", row.work, planning.count());
        const Entry* entry = program.find_entry("step");
        if (entry == nullptr) entry = &program.entries.back();
        Rates rates = rates_of(program.caps);
        if (row.precision != Precision::f32) rates.contraction_flops = matrix_flops;
        TRY(const EntryEstimate expected, estimate(program, *entry, rates));
        size_t dispatches = 0;
        for (const GroupEstimate& group : expected.groups) dispatches += group.members.size();
        const double microseconds = expected.seconds * 1e6;
        table += fmt::format("| {} | {} | {} | {:.1f} | {:.1f} | {:.1f} | {:.0f} | {:.0f} | {} |\n", row.work,
                             expected.groups.size(), dispatches, double(expected.bytes) / 1e6, double(expected.flops) / 1e9,
                             microseconds, row.must, row.target, verdict(microseconds, row));
        if (microseconds > row.target) details += fmt::format("\n### {}\n\n{}", row.work, costly_groups(expected));
    }
    fmt::print("{}{}{}\n## Where the target is exceeded\n{}", introduction, table, missing, details);
    return {};
}

}  // namespace
}  // namespace darner

int main() {
    const darner::Result<void> printed = darner::print_page();
    if (printed) return 0;
    fmt::print(stderr, "error: {}\n", printed.error().text());
    return 1;
}
