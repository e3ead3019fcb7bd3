// SPDX-License-Identifier: MIT
// The darner command as its users meet it: a process with words in, text and an exit code out. Every command's help, the
// errors with their hints, values in and out of .npy files on both devices, and JSON that parses.
#include "darner/base/files.h"
#include "darner/graph/eval.h"
#include "darner/graph/op_def.h"
#include "darner/graph/text.h"
#include "darner/io/npy.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

namespace darner::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using Json = nlohmann::json;

ProcessResult darner(std::vector<std::string> words) {
    words.insert(words.begin(), DARNER_BINARY_DIR "/bin/darner");
    return run_process(words);
}

// One error line and at most one hint, nothing on stdout, exit code 1.
void expect_error(const ProcessResult& result, const std::string& message, const std::string& hint = "") {
    EXPECT_EQ(result.exit_code, 1);
    EXPECT_THAT(result.out, IsEmpty());
    EXPECT_THAT(result.err, testing::StartsWith("error: "));
    EXPECT_THAT(result.err, HasSubstr(message));
    EXPECT_THAT(result.err, HasSubstr(hint.empty() ? "" : "hint: " + hint));
    EXPECT_LE(std::count(result.err.begin(), result.err.end(), '\n'), 2) << result.err;
}

constexpr std::string_view affine_text = R"(graph affine {
  x = input f32[3,4]
  w = param f32[2,4]
  b = param f32[2]
  y = linear(x, w, b)
  s = sum(tanh(y))
  output y
  output s
}
)";

class CliFiles : public testing::Test {
protected:
    std::string write_text(const std::string& name, std::string_view text) {
        EXPECT_TRUE(write_text_file(folder_.file(name), text));
        return folder_.file(name);
    }
    std::string write_array(const std::string& name, const Array& array) {
        EXPECT_TRUE(write_npy(folder_.file(name), array));
        return folder_.file(name);
    }
    std::string path(const std::string& name) const { return folder_.file(name); }

private:
    TemporaryFolder folder_;
};

// --- help and the command line itself ---------------------------------------------------------------------------------

class CliHelp : public testing::TestWithParam<std::vector<std::string>> {};

TEST_P(CliHelp, SaysWhatAndGivesAnExample) {
    std::vector<std::string> words = GetParam();
    words.push_back("--help");
    const ProcessResult result = darner(words);
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.err, IsEmpty());
    EXPECT_THAT(result.out, HasSubstr("Usage: "));
    EXPECT_THAT(result.out, HasSubstr("Example:\n  darner "));
    EXPECT_THAT(result.out, HasSubstr("--help"));
}

using Words = std::vector<std::string>;
INSTANTIATE_TEST_SUITE_P(All, CliHelp,
                         testing::Values(Words{}, Words{"devices"}, Words{"train"}, Words{"train", "fashion-mnist"},
                                         Words{"train", "text"}, Words{"sample"}, Words{"run"}, Words{"plan"}, Words{"compile"},
                                         Words{"grad"}, Words{"op"}, Words{"op", "list"}, Words{"op", "show"},
                                         Words{"op", "check"}));

TEST(Cli, Version) {
    const ProcessResult result = darner({"--version"});
    EXPECT_EQ(result.exit_code, 0);
    EXPECT_THAT(result.out, testing::MatchesRegex("darner [0-9]+\\.[0-9]+\\.[0-9]+\n"));
}

TEST(Cli, WrongWordsAreErrorsWithTheNearestRightOne) {
    expect_error(darner({}), "darner wants a command", "see darner --help");
    expect_error(darner({"devces"}), "no command \"devces\"", "did you mean \"devices\"?");
    expect_error(darner({"frobnicate"}), "no command \"frobnicate\"", "see darner --help");
    expect_error(darner({"op"}), "darner op wants a command: list, show, check");
    expect_error(darner({"op", "lst"}), "no command \"lst\"", "did you mean \"list\"?");
    expect_error(darner({"train", "fashion_mnist"}), "fashion_mnist", "did you mean \"fashion-mnist\"?");
    expect_error(darner({"--json", "devices"}), "no option \"--json\"", "options stand behind the command");
    expect_error(darner({"devices", "--jsn"}), "darner devices has no option \"--jsn\"", "did you mean \"--json\"?");
    expect_error(darner({"devices", "now"}), "does not expect \"now\"", "see darner devices --help");
    expect_error(darner({"train", "fashion-mnist", "--epoch=3"}), "no option \"--epoch\"", "did you mean \"--epochs\"?");
    expect_error(darner({"run"}), "FILE", "see darner run --help");
    expect_error(darner({"run", "a.dg", "--graph"}), "--graph");
}

TEST(Cli, BadValuesOfOptionsSayWhatIsExpected) {
    expect_error(darner({"train", "fashion-mnist", "--epochs", "0"}), "expected a whole number");
    expect_error(darner({"train", "fashion-mnist", "--epochs", "many"}), "got \"many\"");
    expect_error(darner({"train", "fashion-mnist", "--batch", "-3"}), "--batch");
    for (const char* rate : {"nan", "inf", "0", "-1", "1e39", "1e-50"})
        expect_error(darner({"train", "fashion-mnist", "--lr", rate}), "expected a positive number");
    expect_error(darner({"train", "fashion-mnist", "--optimizer", "adamm"}), "did you mean \"adam\"?");
    expect_error(darner({"train", "fashion-mnist", "--device", "vulcan"}), "vulcan");
}

ProcessResult darner_in_shell(const std::string& words) {
    return run_process({"/bin/sh", "-c", DARNER_BINARY_DIR "/bin/darner " + words});
}

TEST(Cli, OutputThatCannotBeWrittenIsAnError) {
    for (const char* words : {"op list", "op list --markdown", "--help", "run --help", "--version"})
        for (const char* lost : {" > /dev/full", " >&-"}) {
            const ProcessResult result = darner_in_shell(std::string(words) + lost);
            EXPECT_EQ(result.exit_code, 1) << words << lost;
            EXPECT_EQ(result.err, "error: standard output could not be written\n") << words << lost;
        }
}

TEST(Cli, ErrorsThatCannotBeWrittenKeepTheirExitCode) {
    for (const char* lost : {" 2> /dev/full", " 2>&-", " >&- 2>&-"})
        EXPECT_EQ(darner_in_shell(std::string("nonsense") + lost).exit_code, 1) << lost;
}

TEST(Cli, ControlCharactersOfWordsAreEscaped) {
    expect_error(darner({"dev\x1b[31m\nnote: \xc2\x9b"}), "no command \"dev\\x1b[31m\\nnote: \\u009b\"");
}

// --- devices and ops --------------------------------------------------------------------------------------------------

TEST(CliDevices, ListsTheInterpreterAndVulkan) {
    const ProcessResult result = darner({"devices", "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json devices = Json::parse(result.out);
    std::vector<std::string> ids;
    for (const Json& device : devices) {
        ids.push_back(device["id"]);
        EXPECT_GT(device["limits"]["storage_bindings"].get<int>(), 0);
    }
    EXPECT_THAT(ids, testing::Contains("interp"));
    EXPECT_THAT(ids, testing::Contains(testing::StartsWith("vulkan")));
    for (const std::string& id : ids) EXPECT_THAT(darner({"devices"}).out, HasSubstr(id));
}

TEST(CliOp, ListHasEveryOp) {
    const ProcessResult text = darner({"op", "list"});
    EXPECT_EQ(text.exit_code, 0);
    const Json ops = Json::parse(darner({"op", "list", "--json"}).out);
    ASSERT_EQ(ops.size(), op_registry().all().size());
    for (size_t i = 0; i < ops.size(); ++i) {
        EXPECT_EQ(ops[i]["name"], op_registry().all()[i]->name);
        EXPECT_THAT(text.out, HasSubstr(ops[i]["name"].get<std::string>() + " "));
    }
}

TEST(CliOp, ShowSaysAll) {
    const ProcessResult result = darner({"op", "show", "rms_norm"});
    EXPECT_EQ(result.exit_code, 0);
    for (const char* part :
         {"rms_norm(x, w?, b?", "eps", "default 1e-5", "gradient", "by_expansion", "lowering", "expand", "RMSNormalization"})
        EXPECT_THAT(result.out, HasSubstr(part));
    EXPECT_THAT(darner({"op", "show", "exp"}).out, HasSubstr("ULP"));
    expect_error(darner({"op", "show", "softmx"}), "no op \"softmx\"", "did you mean \"softmax\"?");
    expect_error(darner({"op", "check", "add", "softmx"}), "no op \"softmx\"", "did you mean \"softmax\"?");
}

TEST(CliOp, CheckRunsOnBothDevices) {
    for (const char* device : {"interp", "vulkan"}) {
        const ProcessResult result = darner({"op", "check", "mul", "sum", "mul", "--device", device, "--json"});
        ASSERT_EQ(result.exit_code, 0) << result.err << result.out;
        std::istringstream lines(result.out);
        std::vector<std::string> names;
        for (std::string line; std::getline(lines, line);) {
            const Json report = Json::parse(line);
            names.push_back(report["op"]);
            EXPECT_TRUE(report["ok"]);
        }
        EXPECT_THAT(names, testing::ElementsAre("mul", "sum"));
    }
}

// --- run --------------------------------------------------------------------------------------------------------------

Array ramp(std::vector<int64_t> dims, float from, float by) {
    int64_t count = 1;
    for (const int64_t dim : dims) count *= dim;
    std::vector<float> values;
    for (int64_t i = 0; i < count; ++i) values.push_back(from + by * static_cast<float>(i));
    return make_array<float>(std::move(dims), std::span<const float>(values));
}

Tensor tensor_of(const Array& array) {
    Result<Tensor> tensor = Tensor::from_bytes(*parse_dtype(array.dtype), array.dims, array.data);
    EXPECT_TRUE(tensor);
    return *tensor;
}

void expect_near(const Array& got, const Tensor& want) {
    const Tensor have = tensor_of(got);
    ASSERT_EQ(have.dims, want.dims);
    for (int64_t i = 0; i < want.count(); ++i) EXPECT_NEAR(have.at(i), want.at(i), 1e-5 * (1 + std::abs(want.at(i))));
}

class CliRun : public CliFiles, public testing::WithParamInterface<const char*> {};

TEST_P(CliRun, WritesOutputsThatAgreeWithTheReference) {
    const std::string model = write_text("affine.dg", affine_text);
    const NamedTensors leaves{{"x", tensor_of(ramp({3, 4}, -1, 0.25f))},
                              {"w", tensor_of(ramp({2, 4}, 0.5f, -0.125f))},
                              {"b", tensor_of(ramp({2}, 0.1f, 0.3f))}};
    const ProcessResult result =
        darner({"run", model, "--set", "x=" + write_array("x.npy", ramp({3, 4}, -1, 0.25f)), "--set",
                "w=" + write_array("w.npy", ramp({2, 4}, 0.5f, -0.125f)), "--set",
                "b=" + write_array("b.npy", ramp({2}, 0.1f, 0.3f)), "--out-dir", path("deep/out"), "--device", GetParam()});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("f32[3,2]"));
    const Result<EvalResult> want = eval(parse_module(affine_text)->graphs[0], leaves);
    ASSERT_TRUE(want);
    for (const auto& [name, tensor] : want->outputs) {
        const Result<Array> got = read_npy(path("deep/out/" + name + ".npy"));
        ASSERT_TRUE(got) << got.error().text();
        expect_near(*got, tensor);
    }
}

TEST_P(CliRun, OptionsMayStandBeforeTheFile) {
    const std::string model = write_text("affine.dg", affine_text);
    const std::string x = "x=" + write_array("x.npy", ramp({3, 4}, 0, 1));
    const ProcessResult result = darner({"run", "--set", x, "--fill", "ones", "--device", GetParam(), model});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("7 7 23 23 39 39"));  // a row of x, summed, plus 1
}

TEST_P(CliRun, TheSameFillGivesTheSameValues) {
    const std::string model = write_text("affine.dg", affine_text);
    const auto run = [&](const char* fill, const char* out) {
        return darner({"run", model, "--fill", fill, "--out-dir", path(out), "--device", GetParam()}).exit_code;
    };
    ASSERT_EQ(run("random:1", "a") + run("random:1", "b") + run("random:2", "c"), 0);
    const Array a = *read_npy(path("a/y.npy")), b = *read_npy(path("b/y.npy")), c = *read_npy(path("c/y.npy"));
    EXPECT_EQ(a, b);
    EXPECT_NE(a, c);
}

TEST_P(CliRun, InitUpdatesAndIntegers) {
    const std::string model = write_text("count.dg", R"(graph count {
  n = param i32[3] init=5 trainable=false role=counter
  by = input i32[3]
  output before = add(n, 0)
  update n = add(n, by)
}
)");
    const std::string by = "by=" + write_array("by.npy", make_array<int32_t>({3}, {1, -7, 2147483647}));
    const ProcessResult result = darner({"run", model, "--set", by, "--device", GetParam(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json out = Json::parse(result.out);
    EXPECT_EQ(out["outputs"][0]["name"], "before");
    EXPECT_EQ(out["outputs"][0]["first"], Json({5, 5, 5}));
    EXPECT_EQ(out["updates"][0]["name"], "n");
    EXPECT_EQ(out["updates"][0]["first"], Json({6, -2, -2147483644}));

    const std::string n = "n=" + write_array("n.npy", make_array<int32_t>({3}, {10, 20, 30}));
    const Json set = Json::parse(darner({"run", model, "--set", by, "--set", n, "--device", GetParam(), "--json"}).out);
    EXPECT_EQ(set["outputs"][0]["first"], Json({10, 20, 30}));
}

TEST_P(CliRun, DimsTakeValues) {
    const std::string model = write_text("sum.dg", "graph total {\n  x = input f32[n,2]\n  output s = sum(x)\n}\n");
    const ProcessResult result = darner({"run", model, "--dim", "n=5", "--fill", "ones", "--device", GetParam()});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("10"));
    const ProcessResult unbound = darner({"run", model, "--fill", "ones", "--device", GetParam()});
    expect_error(unbound, "n");
}

TEST_P(CliRun, NumbersThatAreNotFiniteAreNullInJson) {
    const std::string model = write_text("nan.dg", "graph g {\n  x = input f32[2]\n  output y = div(x, x)\n}\n");
    const ProcessResult result = darner({"run", model, "--fill", "zeros", "--device", GetParam(), "--json"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Json y = Json::parse(result.out)["outputs"][0];
    for (const char* key : {"min", "max", "mean"}) EXPECT_TRUE(y[key].is_null()) << key;
    EXPECT_EQ(y["not_finite"], 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, CliRun, testing::Values("interp", "vulkan"));

class CliRunErrors : public CliFiles {};

TEST_F(CliRunErrors, UnsetValuesAreListedWithTheirTypes) {
    const std::string model = write_text("affine.dg", affine_text);
    expect_error(darner({"run", model}), "3 values are not set: x (input f32[3,4]), w (param f32[2,4]), b (param f32[2])",
                 "set each with --set NAME=FILE.npy");
}

TEST_F(CliRunErrors, WrongValuesSayWhatWasGivenAndExpected) {
    const std::string model = write_text("affine.dg", affine_text);
    const std::string shape = write_array("shape.npy", ramp({4, 3}, 0, 1));
    const std::string dtype = write_array("dtype.npy", make_array<int32_t>({2}, {1, 2}));
    const auto set = [&](const std::string& value) { return darner({"run", model, "--fill", "zeros", "--set", value}); };
    expect_error(set("x=" + shape), "\"x\" has the wrong type: got f32[4,3], expected f32[3,4]");
    expect_error(set("b=" + dtype), "\"b\" has the wrong type: got i32[2], expected f32[2]");
    expect_error(set("bb=" + dtype), "no input or param \"bb\"", "it has x, w, b");
    expect_error(set("x"), "expected NAME=FILE.npy, got \"x\"");
    expect_error(set("x="), "expected NAME=FILE.npy");
    expect_error(set("x=" + path("missing.npy")), "missing.npy");
    expect_error(set("x=" + model), "affine.dg");  // no .npy file
    expect_error(darner({"run", model, "--fill", "zeros", "--set", "x=" + shape, "--set", "x=" + shape}), "given twice");
    expect_error(darner({"run", model, "--fill", "noise"}), "expected random:SEED, zeros or ones, got \"noise\"");
    expect_error(darner({"run", model, "--fill", "random:x"}), "got \"random:x\"");
    expect_error(darner({"run", model, "--fill", "zeros", "--dim", "n=x"}), "wants a whole number");
    expect_error(darner({"run", model, "--fill", "zeros", "--device", "vulkann"}), "vulkann");
}

TEST_F(CliRunErrors, DimsThatTheGraphLacks) {
    const std::string model = write_text("sum.dg", "graph g {\n  x = input f32[n,2*rows+1]\n  output s = sum(x)\n}\n");
    expect_error(darner({"run", model, "--fill", "ones", "--dim", "k=4"}), "the graph has no symbol \"k\"", "it has n, rows");
    const std::string fixed = write_text("affine.dg", affine_text);
    expect_error(darner({"run", fixed, "--fill", "ones", "--dim", "n=4"}), "no symbol \"n\"", "all its dims are numbers");
}

TEST_F(CliRunErrors, FilesThatNeverEnd) {
    const std::string model = write_text("neg.dg", "graph g {\n  x = input f32[2]\n  output y = neg(x)\n}\n");
    expect_error(darner({"run", model, "--set", "x=/dev/zero"}), "/dev/zero: [npy] not a .npy file");
    const std::string array = write_array("x.npy", ramp({2}, 0, 1));
    const std::string piped = "cat " + array + " | " DARNER_BINARY_DIR "/bin/darner run " + model + " --set x=/dev/stdin";
    EXPECT_EQ(run_process({"/bin/sh", "-c", piped + " --device interp"}).exit_code, 0);
    const std::string endless = "cat " + array + " /dev/zero 2> /dev/null | " DARNER_BINARY_DIR "/bin/darner run " + model;
    expect_error(run_process({"/bin/sh", "-c", endless + " --set x=/dev/stdin"}),
                 "needs 8 bytes of data from byte 128, the file has more");
}

TEST_F(CliRunErrors, FilesAndGraphsThatAreNotThere) {
    expect_error(darner({"run", path("none.dg")}), "none.dg");
    const std::string broken = write_text("broken.dg", "graph g {\n  x = input f32[2]\n  output y = softmx(x)\n}\n");
    const ProcessResult parse = darner({"run", broken});
    expect_error(parse, "broken.dg:3:");
    EXPECT_THAT(parse.err, HasSubstr("softmax"));
    const std::string two = write_text("two.dg",
                                       "graph first {\n  x = input f32[2]\n  output y = neg(x)\n}\n"
                                       "graph second {\n  x = input f32[2]\n  output y = abs(x)\n}\n");
    expect_error(darner({"run", two, "--fill", "ones"}), "holds 2 graphs: first, second", "name one with --graph NAME");
    expect_error(darner({"run", two, "--fill", "ones", "--graph", "secnd"}), "no graph \"secnd\"", "did you mean \"second\"?");
    const ProcessResult second = darner({"run", two, "--fill", "ones", "--graph", "second", "--device", "interp"});
    EXPECT_EQ(second.exit_code, 0) << second.err;
    EXPECT_THAT(second.out, HasSubstr("y  f32[2]  1 1"));
}

TEST_F(CliRunErrors, OutputNamesCannotLeaveTheFolder) {
    const std::string model = write_text("odd.dg", "graph g {\n  x = input f32[2]\n  output \"../up\" = neg(x)\n}\n");
    const ProcessResult result = darner({"run", model, "--fill", "ones", "--device", "interp", "--out-dir", path("out")});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_TRUE(read_npy(path("out/%2E.%2Fup.npy")));
    EXPECT_FALSE(read_npy(path("up.npy")));
}

TEST_F(CliRunErrors, OutputNamesCannotSteerTheTerminal) {
    const std::string model = write_text("odd.dg", "graph g {\n  x = input f32[2]\n  output \"a\\nb\\x1b[31m\" = neg(x)\n}\n");
    const ProcessResult result = darner({"run", model, "--fill", "ones", "--device", "interp"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    EXPECT_THAT(result.out, HasSubstr("\na\\nb\\x1b[31m  f32[2]"));
}

// --- grad -------------------------------------------------------------------------------------------------------------

class CliGrad : public CliFiles {};

TEST_F(CliGrad, PrintsAGraphThatParsesAndRuns) {
    const std::string model = write_text("affine.dg", affine_text);
    const ProcessResult result = darner({"grad", model, "--of", "s", "--wrt", "w,b"});
    ASSERT_EQ(result.exit_code, 0) << result.err;
    const Result<Module> module = parse_module(result.out);
    ASSERT_TRUE(module) << module.error().text();
    std::vector<std::string> names;
    for (const GraphOutput& output : module->graphs[0].outputs) names.push_back(output.name);
    EXPECT_THAT(names, testing::UnorderedElementsAre("y", "s", "d_w", "d_b"));

    const std::string gradients = write_text("grad.dg", result.out);
    const ProcessResult run = darner({"run", gradients, "--fill", "zeros", "--device", "interp"});
    EXPECT_EQ(run.exit_code, 0) << run.err;
    EXPECT_THAT(run.out, HasSubstr("d_b  f32[2]  3 3"));  // tanh'(0) = 1, three rows
}

TEST_F(CliGrad, DefaultsAndCotangents) {
    const std::string model = write_text("affine.dg", affine_text);
    const ProcessResult all = darner({"grad", model});  // s is the only scalar; x, w and b are the float leaves
    ASSERT_EQ(all.exit_code, 0) << all.err;
    for (const char* name : {"d_x", "d_w", "d_b"}) EXPECT_THAT(all.out, HasSubstr(name));
    const ProcessResult vector = darner({"grad", model, "--of", "y", "--wrt", "x"});
    ASSERT_EQ(vector.exit_code, 0) << vector.err;
    const Result<Module> module = parse_module(vector.out);
    ASSERT_TRUE(module);
    EXPECT_NE(module->graphs[0].find_input("d_y"), nullptr);
    EXPECT_EQ(parse_module(Json::parse(darner({"grad", model, "--json"}).out)["text"].get<std::string>())->graphs.size(), 1u);
}

TEST_F(CliGrad, WrongNamesAreErrors) {
    const std::string model = write_text("affine.dg", affine_text);
    expect_error(darner({"grad", model, "--of", "z"}), "z");
    expect_error(darner({"grad", model, "--wrt", "w,v"}), "v");
}

}  // namespace
}  // namespace darner::test
