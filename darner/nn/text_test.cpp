// SPDX-License-Identifier: MIT
// Text as tokens, and the graphs over it in the reference evaluator: which windows are evaluated, and what samples are drawn
// from.
#include "darner/nn/text.h"

#include "darner/nn/test_support.h"
#include "darner/nn/text_model.h"

#include <gmock/gmock.h>

#include <cmath>
#include <map>

namespace darner::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Text, TokensAreCharactersInOrder) {
    const std::string text =
        "b\xc3\xa4 a\xf0\x9f\x98\x80"
        "ba\n";  // bä a😀ba
    const TextSet set = ok(make_text_set(text, "t"));
    EXPECT_THAT(set.vocabulary.characters, ElementsAre(U'\n', U' ', U'a', U'b', U'\u00e4', U'\U0001f600'));
    EXPECT_EQ(set.tokens.dtype, "u8");
    const auto bytes = values_of<uint8_t>(set.tokens);
    const std::vector<int32_t> tokens(bytes.begin(), bytes.end());
    EXPECT_THAT(tokens, ElementsAre(3, 4, 1, 2, 5, 3, 2, 0));
    EXPECT_EQ(ok(set.vocabulary.tokens(text)), tokens);
    EXPECT_EQ(set.vocabulary.text(tokens), text);
    EXPECT_EQ(ok(parse_vocabulary(set.vocabulary.text())), set.vocabulary);
    EXPECT_THAT(set.vocabulary.tokens("ab\xc3\xb6").error().text(),
                HasSubstr("\"\xc3\xb6\" (U+00F6) does not occur in the text"));
    EXPECT_THAT(parse_vocabulary("ba").error().text(), HasSubstr("not in ascending order"));
    EXPECT_THAT(parse_vocabulary("aa").error().text(), HasSubstr("not in ascending order"));
}

TEST(Text, MoreThan256CharactersAreI32) {
    Vocabulary all;
    for (char32_t c = 0; c < 0x110000; c += c < 0xd800 || c >= 0xe000 ? 4099 : 1)
        if (c < 0xd800 || c >= 0xe000) all.characters.push_back(c);
    ASSERT_GT(all.size(), 256);
    const TextSet set = ok(make_text_set(all.text() + all.text(), "t"));
    EXPECT_EQ(set.vocabulary, all);
    EXPECT_EQ(set.tokens.dtype, "i32");
    for (int64_t i = 0; i < set.count(); ++i) ASSERT_EQ(values_of<int32_t>(set.tokens)[static_cast<size_t>(i)], i % all.size());
}

TEST(Text, WhatIsNotUtf8IsRefusedWithItsPlace) {
    const std::vector<std::string> bad{"\x80",
                                       "\xc3",
                                       "\xc3(",
                                       "\xc0\x80",
                                       "\xc1\xbf",
                                       "\xe0\x9f\xbf",
                                       "\xed\xa0\x80",
                                       "\xed\xbf\xbf",
                                       "\xf0\x8f\xbf\xbf",
                                       "\xf4\x90\x80\x80",
                                       "\xf5\x80\x80\x80",
                                       "\xff",
                                       "\xe2\x82",
                                       "\xf0\x9f\x98"};
    for (const std::string& bytes : bad) {
        const Result<TextSet> set = make_text_set("ab" + bytes, "file");
        ASSERT_FALSE(set) << bytes;
        EXPECT_THAT(set.error().text(), HasSubstr("file: [text] byte 2 (0x"));
        EXPECT_THAT(set.error().text(), HasSubstr("is not part of valid UTF-8"));
    }
    for (const char* good :
         {"\xc2\x80", "\xdf\xbf", "\xe0\xa0\x80", "\xed\x9f\xbf", "\xee\x80\x80", "\xf0\x90\x80\x80", "\xf4\x8f\xbf\xbf"})
        EXPECT_EQ(ok(make_text_set(good, "t")).vocabulary.text(), good);
}

TEST(Text, SplitsHoldOutTheEnd) {
    EXPECT_EQ(ok(split_text(100000, 64)).held_out, 10000);
    EXPECT_EQ(ok(split_text(100000, 64)).train, 90000);
    EXPECT_EQ(ok(split_text(100000, 64)).windows, 9999 / 64);
    EXPECT_EQ(ok(split_text(100'000'000, 64)).held_out, 65536);
    EXPECT_EQ(ok(split_text(10, 4)).windows, 1);
    EXPECT_THAT(split_text(9, 4).error().text(), HasSubstr("9 characters are too few: a context of 4 needs 5 to train on"));
    EXPECT_FALSE(split_text(0, 1));
    EXPECT_THAT(split_text(100, 0).error().text(), HasSubstr("the context is 0"));
}

TEST(TextNetwork, DescribesItself) {
    const TextNetwork network{{{U'\0', U'"', U'a', U'\u2028', U'\U0001f600'}}, 64, 2, 4, 32};
    EXPECT_EQ(ok(parse_text_network(to_json(network))), network);
    for (const char* json : {"", "[]", "mlp", "{}", R"({"context":8,"layers":1,"heads":1,"hidden":2})",
                             R"({"context":0,"layers":1,"heads":1,"hidden":2,"vocabulary":"a"})",
                             R"({"context":8,"layers":-1,"heads":1,"hidden":2,"vocabulary":"a"})",
                             R"({"context":8,"layers":1,"heads":1,"hidden":4294967296,"vocabulary":"a"})",
                             R"({"context":8,"layers":1,"heads":1,"hidden":2,"vocabulary":""})"})
        EXPECT_THAT(parse_text_network(json).error().text(), HasSubstr("of the network's description is missing or wrong"))
            << json;
}

// --- graphs -----------------------------------------------------------------------------------------------------------

constexpr const char* rhyme = "so much depends upon a red wheel barrow glazed with rain water beside the white chickens. ";

TextSettings small(uint32_t batch) { return {.batch = batch, .context = 5, .layers = 1, .heads = 1, .hidden = 4}; }

ReferenceSession session_of(const TextSettings& settings, const TextSet& text, const SampleOptions& sample) {
    const Module module = ok(text_module(settings, text, sample));
    for (const Graph& graph : module.graphs)  // no user wrote it
        for (const Provenance& place : graph.provenances) EXPECT_EQ(place.file, "") << place.text();
    ReferenceSession session(module);
    session.write("data.text", ok(Tensor::from_bytes(DType::u8, text.tokens.dims, text.tokens.data)));
    return session;
}

TEST(TextGraphs, EvaluationCountsEachHeldOutWindowOnce) {
    const TextSet text = ok(make_text_set(std::string(rhyme) + rhyme + rhyme, "t"));
    const TextSplit split = ok(split_text(text.count(), 5));
    ASSERT_EQ(split.windows, 5);
    std::vector<double> sums;
    for (uint32_t batch : {1u, 2u, 5u, 7u}) {  // 5 windows in 5, 3, 1 and 1 runs
        ReferenceSession session = session_of(small(batch), text, {.length = 0});
        for (int again = 0; again < 2; ++again) {  // the second evaluation starts new sums
            for (uint32_t run = 0; run * batch < 5; ++run) session.run("eval");
            sums.push_back(session.read("eval.loss_sum").at(0));
            EXPECT_EQ(session.read("eval.batch").at(0), 0);
        }
    }
    for (double sum : sums) EXPECT_NEAR(sum, sums[0], 1e-5 * sums[0]);
    // About uniform odds before any training.
    EXPECT_NEAR(sums[0] / 25, std::log(static_cast<double>(text.vocabulary.size())), 1.0);
}

TEST(TextGraphs, TheLossFallsAndItsSumStartsAnewEachRound) {
    const TextSet text = ok(make_text_set(std::string(rhyme) + rhyme, "t"));
    TextSettings settings = small(4);
    settings.report_every = 20;
    ReferenceSession session = session_of(settings, text, {.length = 0});
    double first = 0, last = 0, sum = 0;
    for (int step = 0; step < 200; ++step) {
        const double loss = session.run("step").at("loss").at(0);
        sum = step % 20 == 0 ? loss : sum + loss;
        ASSERT_NEAR(session.read("loss_sum").at(0), sum, 1e-4 * sum) << step;
        if (step == 19) first = sum;
        last = sum;
    }
    EXPECT_LT(last, 0.8 * first);
}

// How often each character is drawn, against the odds that the drawing at another sharpness tells.
TEST(TextGraphs, SamplesFollowTheOdds) {
    const TextSet text = ok(make_text_set("abcabdabcabdabcabdaabbccdd", "t"));
    ReferenceSession session = session_of(small(2), text, {.length = 1, .prompt = "ab"});
    const auto draw = [&](double seed, double sharpness) {
        session.write("sample.text", Tensor::of(DType::i32, {5}, {0, 1, 0, 0, 0}));
        session.write("sample.count", Tensor::of(DType::u32, {}, {2}));
        session.write("sample.key", Tensor::of(DType::u32, {2}, {seed, 3}));
        session.write("sample.sharpness", Tensor::of(DType::f32, {}, {sharpness}));
        session.run("sample");
        EXPECT_EQ(session.read("sample.count").at(0), 3);
        return static_cast<int>(session.read("sample.text").at(2));
    };
    constexpr int draws = 3000;
    std::map<int, int> plain, sharp;
    for (int i = 0; i < draws; ++i) ++plain[draw(i, 1)], ++sharp[draw(i, 2)];
    ASSERT_EQ(plain.size(), 4u);
    // Twice the sharpness squares the odds.
    double squares = 0;
    for (const auto& [token, count] : plain) squares += std::pow(count / double{draws}, 2);
    for (const auto& [token, count] : plain) {
        const double expected = std::pow(count / double{draws}, 2) / squares;
        EXPECT_NEAR(sharp[token] / double{draws}, expected, 0.04) << token;
    }
    const auto likeliest =
        std::max_element(plain.begin(), plain.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    for (int i = 0; i < 20; ++i) EXPECT_EQ(draw(i, 1e6), likeliest->first);
}

TEST(TextGraphs, WrongOptions) {
    const TextSet text = ok(make_text_set(rhyme, "t"));
    const auto error_of = [&](TextSettings settings, SampleOptions sample) {
        return text_module(settings, text, sample).error().text();
    };
    EXPECT_THAT(error_of({.context = 50}, {}), HasSubstr("characters are too few: a context of 50"));
    EXPECT_THAT(error_of({.context = 4, .heads = 3}, {}), HasSubstr("64 features do not divide into 3 heads"));
    EXPECT_THAT(error_of({.batch = 0}, {}), HasSubstr("batch 0"));
    EXPECT_THAT(error_of({.context = 4, .optimizer = "adan"}, {}), HasSubstr("did you mean \"adam\"?"));
    EXPECT_THAT(error_of({.context = 4}, {.prompt = "Q"}), HasSubstr("\"Q\" (U+0051) does not occur"));
    EXPECT_THAT(error_of({.context = 4}, {.temperature = -1}), HasSubstr("the temperature is -1"));
    EXPECT_THAT(error_of({.context = 4}, {.temperature = std::nan("")}), HasSubstr("the temperature is nan"));
}

}  // namespace
}  // namespace darner::testing
