// SPDX-License-Identifier: MIT
#include "darner/base/files.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace darner {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

class Files : public testing::Test {
protected:
    void SetUp() override {
        std::string pattern = (fs::temp_directory_path() / "darner-files-XXXXXX").string();
        ASSERT_NE(::mkdtemp(pattern.data()), nullptr);
        folder = pattern;
    }
    void TearDown() override { fs::remove_all(folder); }

    std::string at(const std::string& name) const { return (folder / name).string(); }
    size_t entries() const {
        return static_cast<size_t>(std::distance(fs::directory_iterator(folder), fs::directory_iterator()));
    }

    fs::path folder;
};

TEST_F(Files, RoundTrip) {
    for (const std::string& text : {std::string(), std::string("a\0b", 3), std::string(300'000, 'x')}) {
        ASSERT_TRUE(write_text_file(at("f"), text));
        EXPECT_EQ(*read_text_file(at("f")), text);
        EXPECT_EQ(read_file(at("f"))->size(), text.size());
    }
    EXPECT_EQ(entries(), 1u) << "temporary files are left";
}

TEST_F(Files, LimitIsExact) {
    ASSERT_TRUE(write_text_file(at("f"), "12345"));
    EXPECT_TRUE(read_file(at("f"), 5));
    const auto refused = read_file(at("f"), 4);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().kind, ErrorKind::limit);
    EXPECT_THAT(refused.error().text(), HasSubstr("limit of 4 bytes"));
}

TEST_F(Files, LimitHoldsWhereNoSizeIsKnown) {
    EXPECT_EQ(read_file("/dev/zero", 100'000).error().kind, ErrorKind::limit);
    EXPECT_EQ(read_file("/dev/zero", 0).error().kind, ErrorKind::limit);
    EXPECT_TRUE(read_file("/dev/null", 0));
}

TEST_F(Files, ReadsPipes) {
    const std::string pipe = at("pipe");
    ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
    const std::string text(200'000, 'p');
    std::thread writer([&] { EXPECT_TRUE(write_text_file(pipe, text)); });
    const auto got = read_text_file(pipe);
    writer.join();
    ASSERT_TRUE(got);
    EXPECT_EQ(*got, text);
}

TEST_F(Files, ErrorsNameTheFileAndTheReason) {
    const auto missing = read_file(at("none"));
    ASSERT_FALSE(missing);
    EXPECT_EQ(missing.error().kind, ErrorKind::io);
    EXPECT_EQ(missing.error().text(), at("none") + ": cannot open the file: No such file or directory");
    EXPECT_THAT(read_file(folder.string()).error().text(), HasSubstr("it is a folder"));
    EXPECT_THAT(write_text_file(folder.string(), "x").error().text(), HasSubstr("it is a folder"));
    EXPECT_THAT(write_text_file(at("no/folder"), "x").error().text(), HasSubstr("No such file or directory"));
    EXPECT_THAT(write_text_file("", "x").error().text(), HasSubstr("No such file"));
}

TEST_F(Files, KeepsPermissionsAndLinks) {
    ASSERT_TRUE(write_text_file(at("real"), "old"));
    ASSERT_EQ(::chmod(at("real").c_str(), 0640), 0);
    fs::create_symlink(at("real"), at("link"));
    ASSERT_TRUE(write_text_file(at("link"), "new"));
    EXPECT_TRUE(fs::is_symlink(at("link")));
    EXPECT_EQ(*read_text_file(at("real")), "new");
    struct stat status;
    ASSERT_EQ(::stat(at("real").c_str(), &status), 0);
    EXPECT_EQ(status.st_mode & 0777, 0640u);
}

TEST_F(Files, DevicesAreWrittenNotReplaced) {
    ASSERT_TRUE(write_text_file("/dev/null", "gone"));
    EXPECT_TRUE(fs::is_character_file("/dev/null"));
}

// A file-size limit makes the write fail half-way.
TEST_F(Files, AFailedWriteLeavesTheOldFile) {
    ASSERT_TRUE(write_text_file(at("f"), "old"));
    rlimit before;
    ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
    const rlimit small = {1000, before.rlim_max};
    const auto handler = std::signal(SIGXFSZ, SIG_IGN);
    ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
    const auto failed = write_text_file(at("f"), std::string(5000, 'n'));
    ::setrlimit(RLIMIT_FSIZE, &before);
    std::signal(SIGXFSZ, handler);
    ASSERT_FALSE(failed);
    EXPECT_THAT(failed.error().text(), HasSubstr("File too large"));
    EXPECT_EQ(*read_text_file(at("f")), "old");
    EXPECT_EQ(entries(), 1u) << "the temporary file is left";
    EXPECT_THAT(write_text_file("/dev/full", "x").error().text(), HasSubstr("No space left"));
}

// What a killed writer leaves goes; what others use or own stays.
TEST_F(Files, LeftoversGo) {
    const std::vector<std::string> ours{"f.1-0.tmp", "f.4194304-17.tmp"};
    const std::vector<std::string> others{"f",         "f.tmp",     "f.1-.tmp",   "f.-1.tmp",     "f.1.tmp",
                                          "f.1-x.tmp", "g.1-0.tmp", "ff.1-0.tmp", "f.1-0.tmp.old"};
    for (const auto* names : {&ours, &others})
        for (const std::string& name : *names) ASSERT_TRUE(write_text_file(at(name), name));
    ASSERT_EQ(::mkfifo(at("f.2-0.tmp").c_str(), 0600), 0);  // no writer: opening it must not wait
    const int in_use = ::open(at("f.3-0.tmp").c_str(), O_CREAT | O_WRONLY, 0600);
    ASSERT_EQ(::flock(in_use, LOCK_EX), 0);
    remove_leftovers(at("f"));
    for (const std::string& name : ours) EXPECT_FALSE(fs::exists(at(name))) << name;
    for (const std::string& name : others) EXPECT_TRUE(fs::exists(at(name))) << name;
    EXPECT_TRUE(fs::exists(at("f.3-0.tmp"))) << "a writer at work lost its file";
    ::close(in_use);
    fs::create_symlink(at("f"), at("link"));
    remove_leftovers(at("link"));
    EXPECT_FALSE(fs::exists(at("f.3-0.tmp"))) << "they lie beside what the link names";
    remove_leftovers(at("none/f"));  // no folder, nothing to do
    remove_leftovers("no-such-file-here");
}

// Cleaning up while others write takes nothing from them.
TEST_F(Files, LeftoversAreToldFromFilesInUse) {
    std::atomic<bool> done = false;
    std::thread cleaner([&] {
        while (!done) remove_leftovers(at("f"));
    });
    for (int i = 0; i < 60; ++i) EXPECT_TRUE(write_text_file(at("f"), std::string(20'000, 'x')));
    done = true;
    cleaner.join();
    EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, WritersAtOnceDoNotMix) {
    std::vector<std::thread> writers;
    for (char c = 'a'; c < 'e'; ++c)
        writers.emplace_back([&, c] {
            for (int i = 0; i < 10; ++i) EXPECT_TRUE(write_text_file(at("f"), std::string(50'000, c)));
        });
    for (std::thread& writer : writers) writer.join();
    const std::string text = *read_text_file(at("f"));
    EXPECT_EQ(text, std::string(50'000, text[0]));
    EXPECT_EQ(entries(), 1u);
}

TEST_F(Files, InputFileReadsPieces) {
    ASSERT_TRUE(write_text_file(at("f"), "0123456789"));
    const auto file = InputFile::open(at("f"));
    ASSERT_TRUE(file);
    EXPECT_EQ(file->size(), 10u);
    std::string piece(4, ' ');
    const auto into = std::as_writable_bytes(std::span(piece.data(), piece.size()));
    ASSERT_TRUE(file->read_at(3, into));
    EXPECT_EQ(piece, "3456");
    EXPECT_THAT(file->read_at(8, into).error().text(), HasSubstr("ends at byte 10: 2 more expected"));
    EXPECT_FALSE(InputFile::open("/dev/zero"));
    EXPECT_FALSE(InputFile::open(at("none")));
}

TEST_F(Files, MakesFolders) {
    EXPECT_TRUE(make_folder(at("a/b/c")));
    EXPECT_TRUE(make_folder(at("a/b/c")));
    ASSERT_TRUE(write_text_file(at("f"), ""));
    EXPECT_FALSE(make_folder(at("f")));
    EXPECT_FALSE(make_folder(at("f/g")));
}

TEST_F(Files, CacheFolderFollowsTheEnvironment) {
    const auto old = [](const char* name) { return std::string(std::getenv(name) ? std::getenv(name) : ""); };
    const std::string xdg = old("XDG_CACHE_HOME"), home = old("HOME");
    ::setenv("XDG_CACHE_HOME", "/tmp/cache", 1);
    EXPECT_EQ(cache_folder(), "/tmp/cache/darner");
    ::setenv("XDG_CACHE_HOME", "relative", 1);
    ::setenv("HOME", "/home/u", 1);
    EXPECT_EQ(cache_folder(), "/home/u/.cache/darner");
    ::unsetenv("XDG_CACHE_HOME");
    ::unsetenv("HOME");
    EXPECT_EQ(cache_folder(), "");
    if (!xdg.empty()) ::setenv("XDG_CACHE_HOME", xdg.c_str(), 1);
    if (!home.empty()) ::setenv("HOME", home.c_str(), 1);
}

}  // namespace
}  // namespace darner
