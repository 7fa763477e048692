#include "hub/repo.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(RepoName, HasFourParts) {
  const auto all = parse_repo_name("Some-Org/model_v1.5@refs/pr/2:sub/x-Q4_K_M.gguf");
  ASSERT_TRUE(all);
  EXPECT_EQ(all->id, "Some-Org/model_v1.5");
  EXPECT_EQ(all->revision, "refs/pr/2");
  EXPECT_EQ(all->file, "sub/x-Q4_K_M.gguf");
  const auto plain = parse_repo_name("o/n");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->revision, "main");
  EXPECT_EQ(plain->file, "");
}

TEST(RepoName, RefusesWhatNobodyMeans) {
  for (const char* text :
       {"",     "/",    "o",      "o/",       "/n",   "o/n/x",           "../n",     "o/..",  "o/n..", ".o/n",
        "-o/n", "o/n@", "o/n@-x", "o/n@a..b", "o/n:", "o/n:/etc/passwd", "o/n:../x", "o/n x", "o:x/n", "o@x/n"}) {
    const auto name = parse_repo_name(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Code::invalid);
  }
  EXPECT_FALSE(parse_repo_name("o/" + std::string(97, 'n')));
}

TEST(HubPath, StaysBelow) {
  for (const char* path : {"a", "a/b.gguf", "..a", "a..", ".hidden", "ä/ö", "a b", "a/b/c/d"})
    EXPECT_TRUE(check_hub_path(path)) << path;
  for (const char* path :
       {"", "/", "/a", "a/", "a//b", ".", "..", "a/../b", "a/..", "./a", "a\\b", "a\nb", "a\x7f", "\xc2\x9b"})
    EXPECT_FALSE(check_hub_path(path)) << path;
  EXPECT_FALSE(check_hub_path(std::string_view("a\0b", 3)));
  EXPECT_TRUE(check_hub_path(std::string(255, 'a')));
  EXPECT_FALSE(check_hub_path(std::string(256, 'a')));
  std::string deep;
  for (int i = 0; i < 15; ++i) deep += "a/";
  EXPECT_TRUE(check_hub_path(deep + "a"));
  EXPECT_FALSE(check_hub_path(deep + "a/a"));
}

TEST(HubListing, TakesBothKindsOfDigests) {
  const std::string sha256(64, 'a'), sha1(40, 'b');
  std::vector<HubFile> files;
  ASSERT_TRUE(add_listing(R"([{"type":"directory","path":"d","size":0},{"type":"file","path":"d/x","size":3,"oid":")" +
                              sha1 + R"("},{"type":"file","path":"y","size":9,"oid":")" + sha1 + R"(","lfs":{"oid":")" +
                              sha256 + R"(","size":9}}])",
                          files));
  ASSERT_EQ(files.size(), 2U);
  EXPECT_EQ(files[0].path, "d/x");
  EXPECT_EQ(files[0].git_sha1, sha1);
  EXPECT_EQ(files[0].sha256, "");
  EXPECT_EQ(files[1].sha256, sha256);
  EXPECT_EQ(files[1].git_sha1, "") << "that of the pointer, not of the bytes";
  EXPECT_FALSE(add_listing(R"([{"type":"file","path":"y","size":9}])", files)) << "twice, over two pages";
  ASSERT_TRUE(add_listing(R"([{"type":"file","path":"z","size":9,"oid":"../../x"}])", files));
  EXPECT_EQ(files.back().git_sha1, "") << "no digest, no part of a file's name";
}

TEST(HubListing, TheNextPageIsOfTheSameServer) {
  EXPECT_EQ(next_page(R"(<https://h/api?recursive=true&cursor=a%3D>; rel="next")"), "recursive=true&cursor=a%3D");
  EXPECT_EQ(next_page(R"(<https://h/a?x=1>; rel="prev", <https://h/b?x=2>; rel="next")"), "x=2");
  for (const char* link : {"", "<", "<>", "<h>; rel=\"next\"", "<h?a b>; rel=\"next\"", "<h?a>", "h?a; rel=next",
                           "<h?a\n>; rel=next", "<h?a#b>; rel=next"})
    EXPECT_EQ(next_page(link), std::nullopt) << link;
}

TEST(HubListing, ACommitIsHexadecimal) {
  EXPECT_EQ(parse_commit(R"({"sha":"0123456789abcdef0123456789abcdef01234567"})").value_or(""),
            "0123456789abcdef0123456789abcdef01234567");
  for (const char* text :
       {"", "[]", "{}", R"({"sha":1})", R"({"sha":"main"})", R"({"sha":"../../../../../../../../../../../../../x"})"})
    EXPECT_FALSE(parse_commit(text)) << text;
}

TEST(Url, Escapes) {
  EXPECT_EQ(url_escape("a/b c%?#ä", true), "a/b%20c%25%3F%23%C3%A4");
  EXPECT_EQ(url_escape("refs/pr/1", false), "refs%2Fpr%2F1");
}

}  // namespace
}  // namespace quire
