// Chat templates against renderings of the reference: our own small templates in tests/golden/templates (made by
// tools/fixtures/make_template_fixtures.py) and, where the shared data is there, real templates × conversations.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "text/chat_template.h"
#include "text/golden_tally.h"
#include "text/test_support.h"

namespace quire {
namespace {

namespace fs = std::filesystem;

Json read_json(const fs::path& path) {
  auto parsed = Json::parse(read_file(path));
  EXPECT_TRUE(parsed) << path << (parsed ? "" : parsed.error().message);
  return parsed ? std::move(*parsed) : Json();
}

std::vector<fs::path> files_in(const fs::path& folder, std::string_view extension) {
  std::vector<fs::path> out;
  std::error_code missing;
  for (const auto& entry : fs::directory_iterator(folder, missing)) {
    if (entry.path().extension() == extension) out.push_back(entry.path());
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Parsing and rendering as one step: the reference may refuse in either.
Result<Rendered> render(std::string_view source, const TemplateInput& input) {
  QR_TRY(const ChatTemplate parsed, ChatTemplate::parse(source));
  return parsed.render_marked(input);
}

// The text must be `expected`, or there must be an error that names a line when `expected` is null.
void expect_rendering(const Result<Rendered>& got, const Json* expected, const std::string& what) {
  if (!expected) {
    ASSERT_FALSE(got) << what << "\nrendered: " << got->text;
    EXPECT_NE(got.error().message.find("chat template, line "), std::string::npos) << got.error().message;
    return;
  }
  ASSERT_TRUE(got) << what << "\n" << got.error().message;
  EXPECT_EQ(got->text, *expected->as_string()) << what;
  size_t end = 0;
  for (const ByteRange& r : got->user_ranges) {
    EXPECT_TRUE((end == 0 || r.begin > end) && r.begin < r.end && r.end <= got->text.size()) << what;
    end = r.end;
  }
}

void count(const char* kind, const std::string& file, const Result<Rendered>& got, const Json* expected) {
  GoldenTally::get().add(kind, file, expected ? got && got->text == *expected->as_string() : !got);
}

TEST(ChatTemplateGolden, OwnTemplatesRenderAsTheReferenceDoes) {
  const auto files = files_in("tests/golden/templates", ".json");
  ASSERT_GE(files.size(), 12U) << "run from the repository root";
  size_t n_cases = 0;
  for (const fs::path& path : files) {
    const Json group = read_json(path);
    TemplateInput input;
    input.now = *group.find("now")->as_string();
    for (const Json::Member& m : *group.find("variables")->as_object()) {
      if (m.first == "messages") {
        input.messages = m.second;
      } else {
        input.extra.set(m.first, m.second);
      }
    }
    for (const Json& c : *group.find("cases")->as_array()) {
      const std::string& source = *c.find("source")->as_string();
      const auto got = render(source, input);
      count("tests/golden/templates", path.stem().string(), got, c.find("text"));
      expect_rendering(got, c.find("text"), path.stem().string() + ": " + Json(source).dump());
      ++n_cases;
    }
  }
  EXPECT_GT(n_cases, 1000U);
}

TEST(ChatTemplateGolden, RealTemplatesRenderAsTheReferenceDoes) {
  const char* set = std::getenv("QUIRE_SHARED");
  const fs::path folder = fs::path(set ? set : "../shared") / "data" / "templates";
  if (!fs::exists(folder / "cases.json")) GTEST_SKIP() << "no shared data at " << folder;
  const Json all = read_json(folder / "cases.json");
  size_t n_rendered = 0, n_refused = 0;
  for (const fs::path& path : files_in(folder, ".jinja")) {
    const std::string source = read_file(path);
    const Json expected = read_json(folder / "expected" / (path.stem().string() + ".json"));
    for (const Json& c : *all.find("cases")->as_array()) {
      TemplateInput input;
      for (const char* token : {"bos_token", "eos_token", "pad_token", "unk_token"}) {
        input.special_tokens.set(token, *all.find(token));
      }
      input.now = *all.find("now")->as_string();
      input.messages = *c.find("messages");
      input.add_generation_prompt = *c.find("add_generation_prompt")->as_bool();
      if (const Json* tools = c.find("tools")) input.tools = *tools;
      if (const Json* extra = c.find("extra")) input.extra = *extra;
      const std::string& name = *c.find("name")->as_string();
      const Json* golden = expected.find(name);
      ASSERT_NE(golden, nullptr) << path << " " << name;
      const Json* text = golden->find("expected");
      const auto got = render(source, input);
      count(text ? "templates/*.jinja x cases: text" : "templates/*.jinja x cases: refused", path.stem().string(), got,
            text);
      expect_rendering(got, text, path.stem().string() + " / " + name);
      ++(text ? n_rendered : n_refused);
    }
  }
  const size_t n_templates = files_in(folder, ".jinja").size();
  EXPECT_EQ(n_rendered + n_refused, n_templates * all.find("cases")->as_array()->size());
  EXPECT_GE(n_rendered + n_refused, 34U * 15U);
  EXPECT_EQ(files_in(folder / "expected", ".json").size(), n_templates) << "an expected file has no template";
}

}  // namespace
}  // namespace quire
