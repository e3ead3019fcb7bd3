// SPDX-License-Identifier: MIT
// Writes one kernel as a WGSL module. Statements and control flow are in wgsl_function.cpp, expressions in wgsl_expression.cpp,
// declarations and helper functions in wgsl_module.cpp. The kernel is taken to be verified and to hold nothing that WGSL lacks.
#pragma once

#include "darner/emit/limits.h"
#include "darner/emit/wgsl_names.h"
#include "darner/kir/kernel.h"

#include <map>
#include <set>
#include <string>
#include <vector>

namespace darner::wgsl {

// The text of a value. Operators put brackets round what is not an atom (a name, a literal, a call).
struct Text {
    std::string text;
    bool atom = true;
    bool literal = false;  // a const-expression: WGSL would evaluate an operation on such operands, and refuse overflow in it
    bool fixed = true;     // means the same to the end of its block: neither an expression nor a variable that a loop updates
};

class ModuleWriter {
public:
    explicit ModuleWriter(const kir::Kernel& kernel);
    std::string write();

private:
    // Declarations.
    std::string declarations();
    std::string helpers() const;
    std::string entry_parameters() const;
    void find_builtins();
    void count_uses();
    std::string helper(const std::string& name, uint8_t lanes = 1);

    // Statements.
    void line(const std::string& text);
    void write_block(const kir::Block& block);
    void write_instruction(kir::ValueId v);
    void write_loop(kir::ValueId v);
    void write_branch(kir::ValueId v);
    void write_store(kir::ValueId v);
    void write_barrier();
    void bind(kir::ValueId v, const Text& expression);  // `let`, or inlined at its only use
    void bind_let(kir::ValueId v, const std::string& expression);
    bool pure(kir::ValueId v) const;

    // Expressions.
    Text expression(kir::ValueId v);
    Text literal(const kir::Type& type, uint32_t bits);
    Text scalar_literal(kir::Scalar scalar, uint32_t bits);
    Text leaf(const kir::Instruction& inst) const;
    Text infix(kir::ValueId v, const char* op);
    Text call(kir::ValueId v, const std::string& function);
    Text arithmetic(kir::ValueId v);
    Text unary_minus(kir::ValueId v);
    Text convert(kir::ValueId v);
    Text memory(kir::ValueId v);
    Text atomic(kir::ValueId v);
    Text subgroup(kir::ValueId v);
    Text pack_half2(kir::ValueId v);
    std::string element(uint32_t binding, const std::string& index) const { return binding_names_[binding] + "[" + index + "]"; }

    // Operand texts. `operand` may be any expression (a call's argument, an index); `atom` can stand beside an operator.
    // Where all operands are literals the first becomes a `let`, so that nothing is evaluated at compile time.
    std::vector<std::string> operands(kir::ValueId v);
    std::string operand(kir::ValueId v, size_t i) { return text_of(kernel_.operand(v, i)).text; }
    std::string atom(kir::ValueId v, size_t i);
    const Text& text_of(kir::ValueId v) const;
    const kir::Type& type_of(kir::ValueId v) const { return kernel_.at(v).type; }

    const kir::Kernel& kernel_;
    const KernelFeatures features_;
    Names names_;
    std::vector<std::string> binding_names_, array_names_, param_names_;
    std::string params_struct_;
    std::set<uint32_t> atomic_bindings_;
    std::map<kir::Opcode, std::string> builtins_;
    std::map<std::pair<std::string, uint8_t>, std::string> helpers_;  // (kind, lanes) -> function name
    std::vector<Text> texts_;                                         // per value
    std::map<kir::ValueId, std::vector<Text>> results_;
    std::vector<uint32_t> uses_;
    std::vector<bool> local_, repeated_;  // used only in its own block; evaluated by a loop again and again
    std::string body_;
    int depth_ = 1, next_value_ = 0;
};

std::string type_name(const kir::Type& type);

}  // namespace darner::wgsl
