// The page's files over a real socket: the policy they come with, and the numbers of the engine view.
#include "serve/page.h"

#include "serve/testing.h"

namespace quire {
namespace {

const std::string* header_of(const HttpResponse& r, std::string_view name) {
  for (const HttpHeader& h : r.headers)
    if (equal_no_case(h.name, name)) return &h.value;
  return nullptr;
}

TEST(Page, IsServedWithAPolicyThatAllowsOnlyItself) {
  TestServer s;
  s.options.keys = {plain_key("key", "secret", true, false)};  // the page itself is open: it asks for the key
  s.start();
  std::vector<std::pair<std::string, std::string>> files{{"/", "text/html; charset=utf-8"}};
  for (const PageFile& file : page_files()) {
    const std::string name(file.name);
    files.emplace_back("/page/" + name, name.ends_with(".js")    ? "text/javascript; charset=utf-8"
                                        : name.ends_with(".css") ? "text/css; charset=utf-8"
                                                                 : "text/html; charset=utf-8");
  }
  ASSERT_GT(files.size(), 4u);
  for (const auto& [path, type] : files) {
    const HttpResponse r = s.get(path);
    ASSERT_EQ(r.status, 200) << path;
    ASSERT_NE(header_of(r, "content-type"), nullptr);
    EXPECT_EQ(*header_of(r, "content-type"), type);
    ASSERT_NE(header_of(r, "content-security-policy"), nullptr);
    const std::string& policy = *header_of(r, "content-security-policy");
    EXPECT_EQ(policy.find("unsafe"), std::string::npos);
    EXPECT_EQ(policy.find("default-src 'none'"), 0u);
    EXPECT_EQ(r.body.find("http://"), std::string::npos) << path << " names another place";
    EXPECT_LE(std::count(r.body.begin(), r.body.end(), '\n'), 300) << path;
  }
  for (const char* path : {"/page/", "/page/nothing.js", "/page/page.css/x", "/page.js"})
    EXPECT_EQ(s.get(path).status, 404) << path;
}

TEST(Page, EngineViewCounts) {
  TestServer s;
  s.options.keys = {plain_key("key", "secret", true, false)};
  s.start();
  EXPECT_EQ(s.get("/engine").status, 401);
  const HttpHeaders key = {{"Authorization", "Bearer secret"}};
  ASSERT_EQ(s.post("/v1/completions", R"({"prompt":"x","max_tokens":3})", key).status, 200);
  const Json j = parse_json(s.get("/engine", key).body);
  EXPECT_EQ(int_at(json_at(j, "submitted")), 1);
  EXPECT_EQ(int_at(json_at(j, "finished")), 1);
  EXPECT_EQ(int_at(json_at(j, "generated_tokens")), 3);
  EXPECT_EQ(int_at(json_at(j, "running")), 0);
}

}  // namespace
}  // namespace quire
