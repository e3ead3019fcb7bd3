// SPDX-License-Identifier: MIT
// The process helper tells failures apart: a helper that always said 0 would hide what other tests should find.
#include "tests/subprocess.h"

#include <gtest/gtest.h>

namespace darner::test {
namespace {

TEST(Subprocess, TellsCodesAndStreamsApart) {
    const ProcessResult result = run_process({"/bin/sh", "-c", "echo to-out; echo to-err >&2; exit 3"});
    EXPECT_EQ(result.exit_code, 3);
    EXPECT_EQ(result.out, "to-out\n");
    EXPECT_EQ(result.err, "to-err\n");
    EXPECT_EQ(run_process({"/bin/sh", "-c", "kill -SEGV $$"}).exit_code, 128 + 11);
    EXPECT_EQ(run_process({"/no/such/program"}).exit_code, 127);
    EXPECT_EQ(run_process({"/bin/sh", "-c", "echo $DARNER_X"}, {"DARNER_X=7"}).out, "7\n");
}

}  // namespace
}  // namespace darner::test
