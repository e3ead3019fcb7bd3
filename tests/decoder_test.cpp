// SPDX-License-Identifier: MIT
// The decoder against Hugging Face's Llama: from saved weights and tokens (testdata/decoder.py), logits, loss and the norms of
// all gradients, in the reference and on devices. And what SmolLM2 is made of, and what a decoder refuses.
#include "darner/io/safetensors.h"
#include "darner/nn/models.h"
#include "darner/nn/test_support.h"
#include "darner/runtime/session.h"
#include "darner/transform/vjp.h"
#include "tests/compare.h"
#include "tests/networks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace darner::test {
namespace {

using ::testing::HasSubstr;
using testing::ok;

struct Saved {
    const char* file;
    DecoderConfig config;
};

std::vector<Saved> saved_decoders() {
    return {
        {"decoder_tied", tiny_decoder()},
        {"decoder_untied",
         {.vocabulary = 11, .hidden = 12, .intermediate = 17, .layers = 1, .heads = 2, .kv_heads = 2, .tied_embeddings = false}}};
}

class SavedState {
public:
    explicit SavedState(const char* file)
        : contents_(ok(read_safetensors(std::string(DARNER_SOURCE_DIR "/tests/testdata/") + file + ".safetensors"))) {}
    Tensor tensor(const std::string& name) const { return ok(tensor_of(contents_.tensors.at(name))); }
    Tensor expected(const std::string& name) const {
        Tensor tensor = this->tensor("expected." + name);
        tensor.dtype = DType::f32;  // saved in f64; compared with what f32 gives
        return tensor;
    }
    std::vector<std::string> params() const {
        std::vector<std::string> names;
        for (const auto& [name, array] : contents_.tensors)
            if (!name.starts_with("expected.") && name != "tokens") names.push_back(name);
        return names;
    }

private:
    Safetensors contents_;
};

// Outputs `logits`, `loss` and d_PARAM for every param.
Graph decoder_graph(const Saved& saved, const SavedState& state) {
    Builder b;
    const Value tokens = b.input("tokens", i32({state.tensor("tokens").dims[0], state.tensor("tokens").dims[1]}));
    const Value logits = decoder(tokens, saved.config), loss = next_token_loss(logits, tokens);
    b.output("logits", logits);
    b.output("loss", loss);
    return ok(gradient_graph(ok(b.finish()), "loss", state.params()));
}

NamedTensors leaves_of(const Graph& graph, const SavedState& state) {
    NamedTensors leaves = random_leaves(graph, 1);  // for `seed`, which only init reads
    leaves["tokens"] = state.tensor("tokens");
    for (const std::string& name : state.params()) leaves[name] = state.tensor(name);
    return leaves;
}

TEST(Decoder, AgreesWithHuggingFace) {
    for (const Saved& saved : saved_decoders()) {
        SCOPED_TRACE(saved.file);
        const SavedState state(saved.file);
        const Graph graph = decoder_graph(saved, state);
        const EvalResult got = ok(eval(graph, leaves_of(graph, state)));
        // The usual bound of f32, because their norms and rotations pass through it; all else on both sides is f64.
        for (const char* name : {"logits", "loss"}) EXPECT_EQ(difference(name, got.outputs.at(name), state.expected(name)), "");
        ASSERT_FALSE(state.params().empty());
        for (const std::string& name : state.params()) {
            double squares = 0;
            for (double g : got.outputs.at("d_" + name).real) squares += g * g;
            const double want = state.expected("gradient_norm." + name).at(0);
            EXPECT_NEAR(std::sqrt(squares), want, 1e-6 * want) << name;
        }
    }
}

TEST(Decoder, ParamsAreThoseOfTheCheckpoint) {
    for (const Saved& saved : saved_decoders()) {
        const SavedState state(saved.file);
        Builder b;
        decoder(b.input("tokens", i32({1, 4})), saved.config);
        std::vector<std::string> names;
        for (const GraphParam& param : b.graph().params)
            if (param.trainable) {
                names.push_back(param.name);
                EXPECT_EQ(b.graph().type(param.node).shape(), state.tensor(param.name).dims) << param.name;
            }
        EXPECT_THAT(names, ::testing::UnorderedElementsAreArray(state.params()));
    }
}

TEST(Decoder, DevicesAgreeWithTheReference) {
    for (const Saved& saved : saved_decoders()) {
        const SavedState state(saved.file);
        const Graph graph = decoder_graph(saved, state);
        const NamedTensors leaves = leaves_of(graph, state);
        // Ten times the usual bound: the errors of some thirty dependent kernels add up.
        const Tolerance tolerance{.relative = 1e-4, .of_largest = 1e-5};
        for (const DeviceCase& on : device_cases()) EXPECT_EQ(compare(graph, leaves, on, tolerance), "") << saved.file;
    }
}

// Tokens of a row given a few at a time, the logits of all steps side by side: equal to those of the whole row at once.
TEST(Decoder, DecodesTokenByToken) {
    const Saved saved = saved_decoders()[0];
    const SavedState state(saved.file);
    const Tensor tokens = state.tensor("tokens"), expected = state.expected("logits");
    const int64_t batch = tokens.dims[0], seq = tokens.dims[1], width = expected.dims[2];
    ASSERT_GE(seq, 4);
    const auto slice_of = [&](int64_t first, int64_t count) {
        Tensor part = Tensor::zeros(DType::i32, {batch, count});
        for (int64_t b = 0; b < batch; ++b)
            for (int64_t i = 0; i < count; ++i)
                part.integer[static_cast<size_t>(b * count + i)] = tokens.integer[static_cast<size_t>(b * seq + first + i)];
        return part;
    };
    Module module;
    for (const int64_t count : {3, 1}) {  // a prompt, then one by one
        Builder b(count == 1 ? "decode" : "prompt");
        b.output("logits", decode(b.input("tokens", i32({batch, count})), saved.config, seq + 5));
        module.graphs.push_back(ok(b.finish()));
    }
    for (const char* device : {"reference", "interp", "vulkan"}) {
        SCOPED_TRACE(device);
        const bool reference = device == std::string("reference");
        NamedTensors leaves = random_leaves(module.graphs[0], 1);
        for (auto& [name, tensor] : leaves)
            if (name.starts_with("cache.")) tensor = Tensor::zeros(tensor.dtype, tensor.dims);
        for (const std::string& name : state.params()) leaves[name] = state.tensor(name);
        CompileOptions options;
        options.device = device;
        std::optional<Session> session;
        if (!reference) {
            session = ok(compile(module, options));
            for (const std::string& name : state.params()) ASSERT_TRUE(session->write(name, array_of(state.tensor(name))));
        }
        Tensor got = Tensor::zeros(DType::f32, expected.dims);
        for (int64_t first = 0, count = 3; first < seq; first += count, count = 1) {
            const Graph& graph = module.graphs[count == 1 ? 1 : 0];
            leaves["tokens"] = slice_of(first, count);
            Tensor logits;
            if (reference) {
                const EvalResult result = ok(eval(graph, leaves));
                for (const auto& [name, value] : result.updates) leaves[name] = value;
                logits = result.outputs.at("logits");
            } else {
                logits = ok(tensor_of(ok(session->run(graph.name, {{"tokens", array_of(leaves["tokens"])}})).at("logits")));
            }
            for (int64_t b = 0; b < batch; ++b)
                for (int64_t i = 0; i < count * width; ++i)
                    got.real[static_cast<size_t>((b * seq + first) * width + i)] =
                        logits.real[static_cast<size_t>(b * count * width + i)];
        }
        EXPECT_EQ(difference("logits", got, expected, Tolerance{.relative = 1e-4, .of_largest = 1e-5}), "");
    }
}

TEST(Decoder, SmolLm2HasItsNumberOfParams) {
    Builder b;
    const Value logits = decoder(b.input("tokens", i32({1, 8})), smollm2_135m());
    EXPECT_EQ(to_string(logits.type()), "f32[1,8,49152]");
    int64_t count = 0;
    for (const GraphParam& param : b.graph().params)
        if (param.trainable) count += b.graph().type(param.node).count();
    EXPECT_EQ(count, 134515008);
}

TEST(Decoder, SequencesMayBeSymbolic) {
    Builder b;
    const Value tokens = b.input("tokens", i32({Dim::symbol("n"), Dim::symbol("s")}));
    b.output("loss", next_token_loss(decoder(tokens, tiny_decoder()), tokens));
    EXPECT_TRUE(b.finish());
}

TEST(Decoder, RefusesSizesThatDoNotFit) {
    const auto error_of = [](DecoderConfig config, Type tokens) {
        Builder b;
        decoder(b.input("tokens", std::move(tokens)), config, {"net.cpp", 3});
        return b.failed() ? b.error().text() : "";
    };
    const Type tokens = i32({2, 7});
    DecoderConfig config = tiny_decoder();
    EXPECT_EQ(error_of(config, tokens), "");
    EXPECT_THAT(error_of(config, f32({2, 7})), HasSubstr("net.cpp:3: [decoder] got tokens f32[2,7], expected i32[batch, seq]"));
    EXPECT_THAT(error_of(config, i32({7})), HasSubstr("got tokens i32[7]"));
    const auto decode_error = [](DecoderConfig of, Type type, int64_t length) {
        Builder b;
        decode(b.input("tokens", std::move(type)), of, length, {"net.cpp", 5});
        return b.failed() ? b.error().text() : "";
    };
    EXPECT_EQ(decode_error(config, tokens, 7), "");
    EXPECT_THAT(decode_error(config, tokens, 6), HasSubstr("net.cpp:5: [decode] got 7 tokens for a cache of length 6"));
    EXPECT_THAT(decode_error(config, tokens, 0), HasSubstr("got a cache of length 0, expected at least 1"));
    EXPECT_THAT(decode_error(config, i32({2, Dim::symbol("s")}), 6), HasSubstr("extents must be known"));
    config.heads = 5;
    EXPECT_THAT(error_of(config, tokens), HasSubstr("hidden 24 does not divide into 5 heads of an even size"));
    config.heads = 8;
    EXPECT_THAT(error_of(config, tokens), HasSubstr("hidden 24 does not divide into 8 heads of an even size"));
    config.heads = 6, config.kv_heads = 4;
    EXPECT_THAT(error_of(config, tokens), HasSubstr("6 heads do not divide into 4 kv_heads"));
    config.kv_heads = 0;
    EXPECT_THAT(error_of(config, tokens), HasSubstr("kv_heads 0: expected positive sizes"));
    Builder b;
    next_token_loss(b.input("logits", f32({2, 3})), b.input("tokens", i32({2})), {"net.cpp", 4});
    EXPECT_THAT(b.error().text(), HasSubstr("net.cpp:4: [next_token_loss] got logits f32[2,3] and tokens i32[2]"));
}

}  // namespace
}  // namespace darner::test
