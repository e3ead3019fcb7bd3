// SPDX-License-Identifier: MIT
// docs/ops.md is what the op table says now, and every op is in it once. DARNER_UPDATE=1 writes the file.
#include "darner/base/files.h"
#include "darner/graph/op_def.h"
#include "tests/subprocess.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace darner::test {
namespace {

constexpr const char* page = DARNER_SOURCE_DIR "/docs/ops.md";

std::string printed_page() {
    const ProcessResult result = run_process({DARNER_BINARY_DIR "/bin/darner", "op", "list", "--markdown"});
    EXPECT_EQ(result.exit_code, 0) << result.err;
    return result.out;
}

TEST(OpsDoc, IsWhatTheCommandPrints) {
    const std::string now = printed_page();
    if (std::getenv("DARNER_UPDATE") != nullptr) {
        ASSERT_TRUE(write_text_file(page, now));
    }
    const Result<std::string> text = read_text_file(page);
    ASSERT_TRUE(text) << text.error().text();
    EXPECT_EQ(*text, now) << "run ./dev update";
}

TEST(OpsDoc, HasEveryOpOnce) {
    const std::string text = printed_page();
    for (const OpDef* op : op_registry().all()) {
        const std::string heading = "\n### " + std::string(op->name) + "\n";
        const size_t at = text.find(heading);
        ASSERT_NE(at, std::string::npos) << op->name;
        EXPECT_EQ(text.find(heading, at + 1), std::string::npos) << op->name;
        EXPECT_NE(text.find("\n" + std::string(op->doc) + "\n", at), std::string::npos) << op->name;
    }
}

}  // namespace
}  // namespace darner::test
