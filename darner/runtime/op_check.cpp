// SPDX-License-Identifier: MIT
// The op table test: runs over the cases of one op; see op_check.h.
#include "darner/runtime/op_check.h"

#include "darner/runtime/op_check_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace darner {

namespace {
constexpr size_t max_failures = 20;  // more say nothing new
}

void CaseCheck::fail(const std::string& what) const {
    report.ok = false;
    if (report.failures.size() < max_failures) report.failures.push_back(fmt::format("{}: {}", test.label(), what));
}

void CaseCheck::compare(double got, double want, double bound, const std::string& what) const {
    if (got == want) return;
    const double ratio = std::fabs(got - want) / bound;
    if (ratio <= 1) {
        report.worst_ratio = std::max(report.worst_ratio, ratio);
        return;
    }
    if (std::isfinite(ratio)) report.worst_ratio = std::max(report.worst_ratio, ratio);
    fail(fmt::format("{}: got {:.9g}, expected {:.9g} within {:.3g}", what, got, want, bound));
}

Result<OpCheckReport> check_op(std::string_view name, Device* device) {
    const OpDef* op = op_registry().find(name);
    if (!op) {
        Error error = invalid(fmt::format("[op check] there is no op \"{}\"", name));
        if (const std::string near = op_registry().nearest(name); !near.empty())
            error.hint = fmt::format("did you mean \"{}\"?", near);
        return error;
    }
    OpCheckReport report;
    report.op = name;
    const std::vector<OpCase> cases = op_cases(*op);
    report.cases = cases.size();
    if (cases.empty()) {
        report.ok = false;
        report.failures.push_back("no cases: add a generator to op_check_cases.cpp");
        return report;
    }
    for (const OpCase& test : cases) check_on_reference({*op, test, report});
    if (device && report.ok) check_on_device(*op, cases, *device, report);
    return report;
}

}  // namespace darner
