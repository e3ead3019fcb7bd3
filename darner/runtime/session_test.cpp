// SPDX-License-Identifier: MIT
// Sessions: what is refused by name and type, and checkpoints, which load whole or not at all.
#include "darner/runtime/session.h"

#include "darner/base/files.h"
#include "darner/graph/text.h"
#include "darner/io/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <optional>
#include <random>

namespace darner {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

class SessionTest : public ::testing::Test {
protected:
    void SetUp() override {
        std::filesystem::create_directory(folder_);
        Result<Module> module = parse_module(R"(graph g {
            x = input f32[3]
            a = param f32[3]
            b = param f32[2,2]
            c = param i32[2]
            images = param u8[4] role=data
            output y = add(x, a)
            output z = mul(b, b)
            output n = add(c, c)
            output bytes = cast(images, dtype=i32)
        })");
        ASSERT_TRUE(module) << module.error().text();
        Result<Session> session = compile(*module, {.device = "interp"});
        ASSERT_TRUE(session) << session.error().text();
        session_.emplace(std::move(*session));
        for (const auto& [name, value] : first_.tensors) ASSERT_TRUE(session_->write(name, value));
        ASSERT_TRUE(session_->write("images", images_));
    }
    void TearDown() override { std::filesystem::remove_all(folder_); }

    Result<void> load(const Safetensors& contents, bool strict) {
        EXPECT_TRUE(write_safetensors(path_, contents));
        return session_->load(path_, strict);
    }
    std::string load_error(const Safetensors& contents, bool strict) {
        const Result<void> loaded = load(contents, strict);
        EXPECT_FALSE(loaded);
        return loaded ? "" : loaded.error().text();
    }
    // All state as it is now.
    std::map<std::string, Array> state() {
        std::map<std::string, Array> values;
        for (const std::string& name : session_->state()) {
            Result<Array> value = session_->read(name);
            EXPECT_TRUE(value) << name;
            if (value) values[name] = std::move(*value);
        }
        return values;
    }
    std::map<std::string, Array> with_images(std::map<std::string, Array> tensors) const {
        tensors["images"] = images_;
        return tensors;
    }

    const Array images_ = make_array<uint8_t>({4}, {1, 2, 3, 4});
    const Safetensors first_{{{"a", make_array<float>({3}, {1, 2, 3})},
                              {"b", make_array<float>({2, 2}, {1, 2, 3, 4})},
                              {"c", make_array<int32_t>({2}, {5, 6})}},
                             {}};
    const Safetensors second_{{{"a", make_array<float>({3}, {-1, -2, -3})},
                               {"b", make_array<float>({2, 2}, {9, 8, 7, 6})},
                               {"c", make_array<int32_t>({2}, {-5, -6})}},
                              {}};
    const std::string folder_ = ::testing::TempDir() + "/session_test." + std::to_string(std::random_device{}());
    const std::string path_ = folder_ + "/state.safetensors";
    std::optional<Session> session_;
};

TEST_F(SessionTest, SavesAllStateButData) {
    ASSERT_TRUE(session_->save(path_));
    const Result<Safetensors> saved = read_safetensors(path_);
    ASSERT_TRUE(saved) << saved.error().text();
    EXPECT_EQ(saved->tensors, first_.tensors);
}

TEST_F(SessionTest, LoadsWhatFits) {
    const Result<void> loaded = load(second_, true);
    ASSERT_TRUE(loaded) << loaded.error().text();
    EXPECT_EQ(state(), with_images(second_.tensors));
    const Result<NamedArrays> out = session_->run("g", {{"x", make_array<float>({3}, {10, 10, 10})}});
    ASSERT_TRUE(out) << out.error().text();
    EXPECT_THAT(values_of<float>(out->at("y")), ElementsAre(9, 8, 7));
}

TEST_F(SessionTest, AFileThatDoesNotFitChangesNothingAndAllIsListed) {
    Safetensors file = second_;
    file.tensors["b"] = make_array<float>({4}, {9, 8, 7, 6});
    file.tensors["c"] = make_array<float>({2}, {1, 2});
    file.tensors["more"] = make_array<float>({}, {1});
    file.tensors.erase("a");
    const std::string error = load_error(file, true);
    EXPECT_THAT(error, AllOf(HasSubstr(path_), HasSubstr("missing [a]"), HasSubstr("unexpected [more]")));
    EXPECT_THAT(error, HasSubstr("[b: got f32[4], expected f32[2,2]; c: got f32[2], expected i32[2]]"));
    EXPECT_EQ(state(), with_images(first_.tensors));
}

// `a` and `b` come before the misfit, in the file and in the program: they must not be written before it is found.
TEST_F(SessionTest, TypesAreCheckedBeforeTheFirstWrite) {
    Safetensors file = second_;
    file.tensors["c"] = make_array<int32_t>({1, 2}, {1, 2});
    for (const bool strict : {true, false}) {
        EXPECT_THAT(load_error(file, strict), AllOf(HasSubstr("c: got i32[1,2], expected i32[2]"), Not(HasSubstr("missing"))));
        EXPECT_EQ(state(), with_images(first_.tensors));
    }
}

TEST_F(SessionTest, WithoutStrictTakesWhatIsThere) {
    Safetensors file;
    file.tensors["b"] = second_.tensors.at("b");
    file.tensors["more"] = make_array<float>({}, {1});
    ASSERT_TRUE(load(file, false));
    std::map<std::string, Array> expected = first_.tensors;
    expected["b"] = second_.tensors.at("b");
    EXPECT_EQ(state(), with_images(expected));
}

TEST_F(SessionTest, DataIsNoPartOfACheckpoint) {
    Safetensors file = second_;
    file.tensors["images"] = make_array<uint8_t>({4}, {9, 9, 9, 9});
    EXPECT_THAT(load_error(file, true), HasSubstr("unexpected [images]"));
    ASSERT_TRUE(load(file, false));
    EXPECT_EQ(state(), with_images(second_.tensors));
}

TEST_F(SessionTest, MissingFilesAndOtherFilesAreErrors) {
    EXPECT_THAT(session_->load(folder_ + "/none").error().text(), HasSubstr("none"));
    ASSERT_TRUE(write_text_file(path_, "no such format"));
    EXPECT_FALSE(session_->load(path_));
    EXPECT_EQ(state(), with_images(first_.tensors));
}

TEST_F(SessionTest, NamesAndTypesAreChecked) {
    EXPECT_THAT(session_->write("a", make_array<float>({4}, {1, 2, 3, 4})).error().text(),
                HasSubstr("a has the wrong type: got f32[4], expected f32[3]"));
    EXPECT_THAT(session_->write("aa", make_array<float>({3}, {1, 2, 3})).error().text(), HasSubstr("no tensor named aa"));
    EXPECT_THAT(session_->run("h").error().text(), HasSubstr("no graph named h"));
    EXPECT_THAT(session_->run("g").error().text(), HasSubstr("x: f32[3]"));
    EXPECT_FALSE(session_->submit("h", 1));
}

TEST_F(SessionTest, ARunTakesTheInputsOfItsGraphAndNothingElse) {
    const auto before = state();
    const Array three = make_array<float>({3}, {7, 8, 9});
    const Result<NamedArrays> with_state = session_->run("g", {{"x", three}, {"a", three}});
    EXPECT_THAT(with_state.error().text(), AllOf(HasSubstr("no input of g named a"), HasSubstr("Session::write() sets it")));
    EXPECT_THAT(session_->run_async("g", {{"x", three}, {"xx", three}}).error().text(), HasSubstr("there are: x"));
    EXPECT_EQ(state(), before);
    // The good one is not written either.
    const Array ones = make_array<float>({3}, {1, 1, 1});
    ASSERT_TRUE(session_->run("g", {{"x", ones}}));
    EXPECT_FALSE(session_->run_async("g", {{"x", three}, {"y", three}}));
    ASSERT_TRUE(session_->submit("g", 1));
    const Result<Array> y = session_->read("y"), a = session_->read("a");
    ASSERT_TRUE(y && a);
    EXPECT_EQ(values_of<float>(*y)[0], 1 + values_of<float>(*a)[0]);
}

}  // namespace
}  // namespace darner
