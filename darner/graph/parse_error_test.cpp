// SPDX-License-Identifier: MIT
// Parse errors: the place, the words and the suggestion. And: no prefix and no damaged copy of a text crashes the parser.
#include "darner/graph/test_support.h"
#include "darner/graph/text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace darner {
namespace {

struct ParseError {
    const char* text;  // lines of a graph that has x: f32[2,3], n: u32[] and begins at line 4
    const char* where;
    const char* message;
    const char* hint = "";
};

const ParseError statements[] = {
    {"output y = rellu(x)", "4:12", "unknown op \"rellu\"", "did you mean \"relu\"?"},
    {"output y = sum(x, axis=[0])", "4:19", "[sum] there is no attribute or operand \"axis\"", "did you mean \"axes\"?"},
    {"output y = sum(x, axes=0)", "4:24", "[sum] wrong value of \"axes\": got 0, expected a list of integers like [0,1]"},
    {"output y = sum(x, axes=[0)", "4:24", "[sum] wrong value of \"axes\": got nothing, expected a list of integers like [0,1]"},
    {"output y = sum(x, keep=yes, keep=true)", "4:24", "[sum] wrong value of \"keep\": got yes, expected true or false"},
    {"output y = sum(x, keep=true, keep=true)", "4:30", "[sum] the attribute \"keep\" is given twice"},
    {"count = n; output y = add(n, cuont)", "4:30", "there is no value \"cuont\": names must be defined above their use",
     "did you mean \"count\"?"},
    {"output y = add(x, b=x, a=x)", "4:24", "[add] the operand \"a\" is given twice"},
    {"output y = add(b=x, x)", "4:21", "[add] an operand by position may not follow those by name"},
    {"output y = add(x)", "4:12", "[add] the operand \"b\" is missing"},
    {"output y = add(x, x, x)", "4:12", "[add] wrong number of operands: got 3, expected 2"},
    {"output y = add(x, )", "4:19", "got \")\", expected an expression (a name, a call, a number or a constant)"},
    {"output y = add(x x)", "4:18", "got \"x\", expected \",\" or \")\""},
    {"output y = add(x, x", "5:1", "got \"}\", expected \",\" or \")\""},
    {"output y = add(1, 2)", "4:16", "[add] the number 1 has no neighbour to take its type from: write constant f32[] {1}"},
    {"output y = add(n, 0.5)", "4:19", "not a value of u32: got \"0.5\""},
    {"output y = add(n, -1)", "4:19", "not a value of u32: got \"-1\""},
    {"output y = add(x, true)", "4:19", "a value of f32 is a number: got \"true\""},
    {"output y = add(x, 1e999)", "4:19", "not a number that a double can hold: got \"1e999\""},
    {"output y = add(x, 1e39)", "4:19", "[constant] 1e+39 overflows f32"},
    {"output y = sum(3)", "4:16",
     "[sum] a bare number stands only in elementwise calls: got 3, expected a value such as constant f32[] {3}"},
    {"output y = 3", "4:12", "the number 3 has no type here: write constant f32[] {3}"},
    {"output y = dot(x, x, contract=[[1],[0]])", "4:12", "[dot] "},
    {"output %3", "4:8", "an output needs a name: output NAME = %3"},
    {"output nothing", "4:8", "there is no value \"nothing\": names must be defined above their use"},
    {"update x = x", "4:8", "[update] only a param can be updated: got input x f32[2,3]"},
    {"update n = x", "4:8", "[update] wrong type of the new value of \"n\": got f32[2,3], expected u32[]"},
    {"x = neg(x)", "4:1", "\"x\" is defined already, at 2:3"},
    {"y = input f32", "4:14", "got the end of the line, expected \"[\" and the dims of the type"},
    {"y = input f33[2]", "4:11", "got \"f33\", expected a type like f32[64,784]"},
    {"y = input f32[2", "4:14", "got a \"[\" that is not closed, expected dims like [64,784]"},
    {"y = input f32[2,]", "4:14", "not a list of dims: a comma with nothing behind it"},
    {"y = input f32[-2]", "4:11", "the dim -2 of f32[-2] is negative"},
    {"y = input f32[99999999999]", "4:11", "f32[99999999999] has too many elements: at most 2^31-1 are supported"},
    {"y = input f32[2] trainable=false", "4:18", "an input has no attribute \"trainable\": expected per_step"},
    {"y = param f32[2] trainabel=false", "4:18", "a param has no attribute \"trainabel\": expected init, trainable, role",
     "did you mean \"trainable\"?"},
    {"y = param f32[2] role=boss", "4:23", "got \"boss\", expected a role: param, moment, statistic, counter or data"},
    {"y = param f32[2] init=0 init=1", "4:25", "\"init\" is given twice"},
    {"y = param f32[2] init=n", "4:1", "[param] wrong type of the init of \"y\": got u32[], expected f32[2]"},
    {"%7 = input f32[2]", "4:1", "got \"%7\", expected a name of its own for an input or param"},
    {"y = constant f32[3] {1, 2}", "4:26", "[constant] wrong number of values: got 2, expected 1 or those of f32[3]"},
    {"y = constant f32[3] {1 2}", "4:24", "got \"2\", expected \",\" or \"}\""},
    {"y = constant u8[1] {256}", "4:21", "not a value of u8: got \"256\""},
    {"y = constant bool[1] {1}", "4:23", "a bool is true or false: got \"1\""},
    {"y = neg(x) z", "4:12", "got \"z\", expected the end of the line"},
    {"y = neg(x) @scope", "4:13", "got \"scope\", expected a scope in quotes behind \"@\""},
    {"y = neg(x) @\"s\" file", "4:17", "got no place, expected FILE:LINE"},
    {"y = neg(\"x", "4:9",
     "got a string without its closing quote or with a wrong escape, expected an expression (a name, a call, a number or a "
     "constant)"},
    {"y = neg($)", "4:9", "got the character \"$\", expected an expression (a name, a call, a number or a constant)"},
    {"= neg(x)", "4:1", "got \"=\", expected a statement (NAME = ..., output, update) or \"}\""},
    {"y neg(x)", "4:3", "got \"neg\", expected \"=\""},
    {"\"\xc3\xa4\" = negg(x)", "4:7", "unknown op \"negg\"", "did you mean \"neg\"?"},
};

TEST(ParseError, Statements) {
    for (const ParseError& c : statements) {
        const std::string text = std::string("graph g {\n  x = input f32[2,3]\n  n = param u32[]\n") + c.text + "\n}\n";
        const Result<Module> module = parse_module(text, "model.dg");
        ASSERT_FALSE(module) << c.text;
        EXPECT_EQ(module.error().where, std::string("model.dg:") + c.where) << c.text;
        EXPECT_THAT(module.error().message, ::testing::StartsWith(c.message)) << c.text;
        EXPECT_EQ(module.error().hint, c.hint) << c.text;
    }
}

TEST(ParseError, Files) {
    const ParseError files[] = {
        {"", "1:1", "got no graph, expected \"graph NAME {\""},
        {"# nothing\n", "2:1", "got no graph, expected \"graph NAME {\""},
        {"grph g {}", "1:1", "got \"grph\", expected \"graph\""},
        {"graph {", "1:7", "got \"{\", expected the graph's name"},
        {"graph g { x = input f32[]", "1:26", "got the end of the file, expected the end of the line"},
        {"graph g {\n x = input f32[]\n", "3:1",
         "got the end of the file, expected a statement (NAME = ..., output, update) or \"}\""},
        {"graph g {\n}", "1:1", "[verify] graph g: there is neither an output nor an update"},
        {"graph g { x = input f32[]; output x } graph", "1:39", "got \"graph\", expected the end of the line"},
        {"graph g { x = input f32[]; output x }\ngraph g { x = input f32[]; output x }", "1:1",
         "[verify] two graphs are called \"g\""},
        {"graph g { x = param f32[]; output x }\ngraph h { x = param f32[2]; output x }", "1:1",
         "[verify] the param \"x\" is f32[] in graph g but f32[2] in graph h"},
    };
    for (const ParseError& c : files) {
        const Result<Module> module = parse_module(c.text);
        ASSERT_FALSE(module) << c.text;
        EXPECT_EQ(module.error().where, c.where) << c.text;
        EXPECT_EQ(module.error().message, c.message);
    }
}

TEST(ParseError, DamagedTextsNeverCrash) {
    const std::string good = R"(graph "g 1" {
  x = input f32[n,2*n+1] per_step
  w = param f32[] init=0x1p-1 trainable=false role=counter
  y = add(select(lt(x, 1), x, -inf), rms_norm(x, eps=1e-5)) @"s" f.cpp:3
  c = constant f32[2] {1, nan}
  output z = reshape(y, shape=[2*n*n+n])
  update w = sum(c)
}
)";
    ASSERT_TRUE(parse_module(good));
    for (size_t length = 0; length < good.size() - 1; ++length) (void)parse_module(std::string_view(good).substr(0, length));
    std::mt19937 random(1);
    const std::string_view letters = "(){}[]=,@:;\"\\%#-+.*x0 \n\xff";
    for (int i = 0; i < 5000; ++i) {
        std::string text = good;
        for (uint32_t k = 0; k <= random() % 4; ++k) {
            const size_t at = random() % text.size();
            if (random() % 2) {
                text[at] = letters[random() % letters.size()];
            } else {
                text.insert(at, 1, letters[random() % letters.size()]);
            }
        }
        if (const Result<Module> module = parse_module(text); module) EXPECT_TRUE(parse_module(to_text(*module))) << text;
    }
}

}  // namespace
}  // namespace darner
