// SPDX-License-Identifier: MIT
// Graphs over a text on the device. No user wrote them: their nodes have a scope, but no place.
#include "darner/nn/text_model.h"

#include "darner/nn/batches.h"
#include "darner/nn/training.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>

namespace darner {
namespace {

using nlohmann::ordered_json;

constexpr Where nowhere;
constexpr int64_t most_held_out = 65536;
constexpr uint32_t warmup_steps = 100, decay_from = 1000;
// Times a difference of logits: what stands for 1 / temperature at 0.
constexpr double sharpest = 1e6;

DecoderConfig config_of(const TextNetwork& network) {
    const int64_t hidden = network.hidden;
    return {.vocabulary = network.vocabulary.size(),
            .hidden = hidden,
            .intermediate = (hidden * 8 / 3 + 7) / 8 * 8,  // three matrices have as many weights as two of 4 hidden
            .layers = network.layers,
            .heads = network.heads,
            .kv_heads = network.heads,
            .init_stddev = 1 / std::sqrt(static_cast<double>(std::max<int64_t>(hidden, 1)))};
}

Value data_param(Builder& b, std::string_view name, Type type) {
    return b.param(name, std::move(type), {.trainable = false, .role = Role::data});
}

struct Windows {
    Value inputs, labels;  // i32[count, context]: each label is the next input
};

Windows windows_at(Builder& b, const TextSet& text, Value starts, uint32_t context) {
    const Value all = data_param(b, "data.text", Type(*parse_dtype(text.tokens.dtype), {text.count()}));
    const Dim count = starts.dims()[0];
    const Value positions = reshape(starts, {count, 1}) + b.iota(u32({1, context + 1}), 1);
    const Value tokens = cast(gather(all, positions), DType::i32);
    constexpr int64_t end = std::numeric_limits<int64_t>::max();
    return {slice(tokens, {0, 0}, {end, -1}), slice(tokens, {0, 1}, {end, end})};
}

Result<Graph> step_graph(const TextSettings& settings, const TextNetwork& network, const TextSet& text, const TextSplit& split) {
    TRY(const Optimizer optimizer, optimizer_named(settings.optimizer, settings.learning_rate,
                                                   warmup_and_decay(warmup_steps, decay_from, nowhere), nowhere));
    Builder b("step");
    const Builder::Place place = b.place(nowhere);
    // The remainder prefers some places by at most 2^-32 times their number, which is far below what training notices.
    const Value bits = random_bits(b.seed(), b.step(), {settings.batch});
    const Value starts = rem(bits, b.constant(u32(), static_cast<double>(split.train - settings.context)));
    const Windows batch = windows_at(b, text, starts, settings.context);
    const Value loss = cross_entropy(decoder(batch.inputs, config_of(network)), batch.labels);
    accumulate_loss(b, loss, rem(b.step(), b.constant(u32(), settings.report_every)));
    return training_graph(loss, optimizer, {}, nowhere);
}

int64_t evaluation_runs(const TextSettings& settings, const TextSplit& split) {
    return (split.windows + settings.batch - 1) / settings.batch;
}

Result<Graph> eval_graph(const TextSettings& settings, const TextNetwork& network, const TextSet& text, const TextSplit& split) {
    Builder b("eval");
    const Builder::Place place = b.place(nowhere);
    const Value run = zero_state(b, "eval.batch", u32(), Role::counter), total = zero_state(b, "eval.loss_sum", f32());
    const Value window = b.iota(u32({settings.batch})) + run * static_cast<double>(settings.batch);
    // In place of windows behind the last one that one is read again, and does not count.
    const Value valid = reshape(lt(window, b.constant(u32(), static_cast<double>(split.windows))), {settings.batch, 1});
    const Value starts =
        minimum(window, b.constant(u32(), static_cast<double>(split.windows - 1))) * static_cast<double>(settings.context) +
        static_cast<double>(split.train);
    const Windows batch = windows_at(b, text, starts, settings.context);
    const Value losses = cross_entropy(decoder(batch.inputs, config_of(network)), batch.labels, "none");
    accumulate(b, total, sum(select(valid, losses, b.constant(losses.type(), 0.0))), run);
    b.update(run, rem(run + 1.0, b.constant(u32(), static_cast<double>(evaluation_runs(settings, split)))));
    return b.finish();
}

// The prompt in tokens.
Result<std::vector<int32_t>> prompt_of(const TextNetwork& network, const SampleOptions& options) {
    if (!options.prompt.empty()) return network.vocabulary.tokens(options.prompt);
    const std::vector<char32_t>& all = network.vocabulary.characters;
    const auto line_break = std::find(all.begin(), all.end(), U'\n');
    return std::vector<int32_t>{line_break == all.end() ? 0 : static_cast<int32_t>(line_break - all.begin())};
}

// Of `sample.text`, which is never shorter than a window.
int64_t text_length(const TextNetwork& network, const std::vector<int32_t>& prompt, const SampleOptions& options) {
    return std::max(static_cast<int64_t>(prompt.size()) + options.length, int64_t{network.context});
}

// A run draws one character: `sample.text` holds `sample.count` of them before it, one more behind it. What the network sees
// is the last window. Behind the last character the window holds anything: causal attention does not look there.
Result<Graph> sample_graph(const TextNetwork& network, const SampleOptions& options) {
    TRY(const std::vector<int32_t> prompt, prompt_of(network, options));
    const int64_t context = network.context, characters = network.vocabulary.size();
    const int64_t length = text_length(network, prompt, options);
    Builder b("sample");
    const Builder::Place place = b.place(nowhere);
    const Value text = data_param(b, "sample.text", i32({length})), count = data_param(b, "sample.count", u32());
    const Value key = data_param(b, "sample.key", u32({2})), sharpness = data_param(b, "sample.sharpness", f32());
    const Value full = b.constant(u32(), static_cast<double>(context));
    const Value window = gather(text, b.iota(u32({context})) + (maximum(count, full) - full));
    const Value logits = decoder(reshape(window, {1, context}), config_of(network));
    const Value last = reshape(minimum(count, full) - b.constant(u32(), 1.0), {1});
    const Value scores = reshape(gather(reshape(logits, {context, characters}), last), {characters});
    // The first character up to which the odds reach a random share of them all.
    const Value up_to = cumsum(exp((scores - max(scores, {}, true)) * sharpness));
    const Value share = uniform(key, count, {1}) * slice(up_to, {characters - 1}, {characters});
    const Value passed = sum(cast(le(up_to, share), DType::f32));
    const Value next = minimum(cast(passed, DType::i32), b.constant(i32(), static_cast<double>(characters - 1)));
    b.update(text, select(eq(b.iota(u32({length})), count), next, text));
    b.update(count, count + 1.0);
    return b.finish();
}

Result<void> check_sample(const SampleOptions& options) {
    if (options.temperature >= 0 && std::isfinite(options.temperature)) return {};
    return invalid(fmt::format("[sample] the temperature is {}, expected a number from 0 on", options.temperature));
}

}  // namespace

TextNetwork network_of(const TextSettings& settings, const TextSet& text) {
    return {text.vocabulary, settings.context, settings.layers, settings.heads, settings.hidden};
}

std::string to_json(const TextNetwork& network) {
    const ordered_json object{{"context", network.context},
                              {"layers", network.layers},
                              {"heads", network.heads},
                              {"hidden", network.hidden},
                              {"vocabulary", network.vocabulary.text()}};
    return object.dump();
}

Result<TextNetwork> parse_text_network(const std::string& json) {
    const auto fail = [](std::string_view field) {
        Error error = invalid(fmt::format("[text] {} of the network's description is missing or wrong", field));
        error.hint = "expected are weights of darner train text";
        return error;
    };
    const ordered_json object = ordered_json::parse(json, nullptr, false);
    TextNetwork network;
    for (const auto& [name, into] : {std::pair("context", &network.context), std::pair("layers", &network.layers),
                                     std::pair("heads", &network.heads), std::pair("hidden", &network.hidden)}) {
        const auto found = object.is_object() ? object.find(name) : object.end();
        if (found == object.end() || !found->is_number_unsigned() || found->get<uint64_t>() > INT32_MAX) return fail(name);
        *into = found->get<uint32_t>();
    }
    const auto characters = object.find("vocabulary");
    if (characters == object.end() || !characters->is_string()) return fail("vocabulary");
    TRY(network.vocabulary, parse_vocabulary(characters->get<std::string>()));
    if (network.context < 1 || network.vocabulary.size() < 1) return fail(network.context < 1 ? "context" : "vocabulary");
    return network;
}

Result<TextSplit> split_text(int64_t characters, uint32_t context) {
    if (context < 1) return invalid("[text] the context is 0, expected 1 or more");
    const int64_t window = int64_t{context} + 1;
    TextSplit split;
    split.held_out = std::max(std::min(characters / 10, most_held_out), window);
    split.train = characters - split.held_out;
    split.windows = (split.held_out - 1) / context;
    if (split.train >= window) return split;
    Error error =
        invalid(fmt::format("[text] {} characters are too few: a context of {} needs {} to train on and as many to evaluate",
                            characters, context, window));
    error.hint = "take a longer text or a shorter --context";
    return error;
}

Result<Module> text_module(const TextSettings& settings, const TextSet& text, const SampleOptions& sample) {
    if (settings.batch < 1 || settings.report_every < 1)
        return invalid(
            fmt::format("[train] batch {}, report-every {}: expected 1 or more of each", settings.batch, settings.report_every));
    if (settings.heads < 1 || settings.hidden < 1 || settings.hidden % (2 * settings.heads) != 0) {
        Error error = invalid(
            fmt::format("[train] {} features do not divide into {} heads of an even size", settings.hidden, settings.heads));
        error.hint = "take --hidden as a multiple of twice --heads";
        return error;
    }
    TRY(check_sample(sample));
    TRY(const TextSplit split, split_text(text.count(), settings.context));
    const TextNetwork network = network_of(settings, text);
    std::vector<Graph> graphs(3);
    TRY(graphs[0], step_graph(settings, network, text, split));
    TRY(graphs[1], loss_report_graph(nowhere));
    TRY(graphs[2], eval_graph(settings, network, text, split));
    if (sample.length > 0) {
        TRY(Graph graph, sample_graph(network, sample));
        graphs.push_back(std::move(graph));
    }
    return make_module(std::move(graphs));
}

Result<Module> text_sampling(const TextNetwork& network, const SampleOptions& sample) {
    TRY(check_sample(sample));
    std::vector<Graph> graphs(1);
    TRY(graphs[0], sample_graph(network, sample));
    return make_module(std::move(graphs));
}

Result<double> evaluate_text(Session& session, const TextSettings& settings, const TextSplit& split) {
    TRY(session.submit("eval", static_cast<uint32_t>(evaluation_runs(settings, split))));
    TRY(const Array sum, session.read("eval.loss_sum"));
    return static_cast<double>(values_of<float>(sum)[0]) / static_cast<double>(split.windows * settings.context);
}

Result<std::string> draw_sample(Session& session, const TextNetwork& network, const SampleOptions& options, uint64_t seed,
                                uint32_t draw) {
    TRY(std::vector<int32_t> text, prompt_of(network, options));
    const auto count = static_cast<uint32_t>(text.size());
    text.resize(static_cast<size_t>(text_length(network, text, options)));
    const auto sharpness = static_cast<float>(options.temperature > 1 / sharpest ? 1 / options.temperature : sharpest);
    TRY(session.write("sample.text", make_array<int32_t>({static_cast<int64_t>(text.size())}, text)));
    TRY(session.write("sample.count", make_array<uint32_t>({}, {count})));
    TRY(session.write("sample.key", make_array<uint32_t>({2}, {static_cast<uint32_t>(seed ^ seed >> 32), draw})));
    TRY(session.write("sample.sharpness", make_array<float>({}, {sharpness})));
    TRY(session.submit("sample", options.length));
    TRY(const Array drawn, session.read("sample.text"));
    return network.vocabulary.text(values_of<int32_t>(drawn).first(count + options.length));
}

}  // namespace darner
