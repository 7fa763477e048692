#include "app/batch_file.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

namespace quire {
namespace {

std::string refusal(const std::string& line) {
  const auto parsed = parse_batch_line(line);
  return parsed ? "" : parsed.error().message;
}

std::string content(const std::string& path) {
  std::stringstream out;
  out << std::ifstream(path).rdbuf();
  return out.str();
}

TEST(BatchFile, ReadsALine) {
  const auto line =
      parse_batch_line(R"({"custom_id":"a","method":"POST","url":"/v1/completions","body":{"prompt":"x"}})");
  ASSERT_TRUE(line) << line.error().message;
  EXPECT_EQ(line->custom_id, "a");
  EXPECT_EQ(line->url, "/v1/completions");
  EXPECT_EQ(line->body.dump(), R"({"prompt":"x"})");
}

TEST(BatchFile, NamesWhatALineLacks) {
  EXPECT_NE(refusal("{"), "");
  EXPECT_EQ(refusal("[1]"), "the line is no JSON object");
  EXPECT_EQ(refusal(R"({"custom_id":""})"), "custom_id must be a string that is not empty");
  EXPECT_EQ(refusal(R"({"custom_id":"a","method":"GET"})"), "method must be \"POST\"");
  EXPECT_EQ(refusal(R"({"custom_id":"a","method":"POST","url":"/metrics"})"), "url must begin with \"/v1/\"");
  EXPECT_EQ(refusal(R"({"custom_id":"a","method":"POST","url":"/v1/x","body":[]})"), "body must be an object");
  EXPECT_EQ(refusal(R"({"custom_id":"a","method":"POST","url":"/v1/x","body":{"stream":true}})"),
            "body.stream must be false in a batch");
}

TEST(BatchFile, WritesOpenAisResults) {
  Json body;
  body.set("id", "cmpl-1");
  EXPECT_EQ(batch_result(3, "a", 200, body),
            R"({"id":"batch_req_3","custom_id":"a","response":{"status_code":200,"request_id":"cmpl-1",)"
            R"("body":{"id":"cmpl-1"}},"error":null})");
  EXPECT_EQ(batch_failure(4, "", "invalid_line", "no"),
            R"({"id":"batch_req_4","custom_id":null,"response":null,"error":{"code":"invalid_line","message":"no"}})");
}

TEST(BatchFile, KeepsWhatIsDoneAndDropsTheRest) {
  const std::string path = testing::TempDir() + "results.jsonl";
  const std::string good = batch_result(1, "a", 200, Json(Json::Object{}));
  const std::string refused = batch_result(2, "b", 400, Json(Json::Object{}));
  {
    std::ofstream out(path);
    out << good << '\n'
        << batch_result(3, "c", 429, Json(Json::Object{})) << '\n'
        << refused << '\n'
        << batch_result(5, "e", 500, Json(Json::Object{})) << '\n'
        << batch_failure(4, "d", "request_failed", "gone") << '\n'
        << good << '\n'
        << good.substr(0, 20);
  }
  EXPECT_TRUE(check_results(path));
  const auto done = keep_done(path);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(content(path), good + "\n" + refused + "\n");
  EXPECT_EQ(*keep_done(path), *done);
}

TEST(BatchFile, NamesABadLinesId) {
  EXPECT_EQ(custom_id_in(R"({"custom_id":"a","method":"GET"})"), "a");
  for (const char* none : {"{", "[1]", "7", "{}", R"({"custom_id":5})"}) EXPECT_EQ(custom_id_in(none), "") << none;
}

TEST(BatchFile, RefusesAFileThatHoldsNoResultsAndLeavesItAsItIs) {
  const std::string path = testing::TempDir() + "notes.txt";
  const std::string good = batch_result(1, "a", 200, Json(Json::Object{})) + "\n";
  const std::string failed = batch_failure(2, "", "invalid_line", "no") + "\n";
  const std::pair<std::string, int> cases[] = {
      {"my notes\nand more\n", 1},
      {"notes without an end", 1},
      {good + failed + "\n{\"a\":1}\n", 4},
      {good + "[1]\n", 2},
      {good + R"({"custom_id":"a","method":"POST","url":"/v1/x","body":{}})" + "\n", 2},
      {good + "GGUF", 2}};
  for (const auto& [text, n_line] : cases) {
    std::ofstream(path) << text;
    for (const Status& refused : {check_results(path), keep_done(path).map([](const auto&) {})}) {
      ASSERT_FALSE(refused) << text;
      EXPECT_EQ(refused.error().message, "OUT " + path + " is there, and its line " + std::to_string(n_line) +
                                             " is no result of a batch; name a new file, or --restart replaces it");
    }
    EXPECT_EQ(content(path), text);
  }
  std::ofstream(path) << "\n" << good;  // an empty line is nobody's
  EXPECT_TRUE(check_results(path));
}

TEST(BatchFile, NothingIsReadOfADeviceAndAFolderIsRefused) {
  EXPECT_TRUE(check_results("/dev/full"));
  EXPECT_TRUE(keep_done("/dev/full")->empty());
  EXPECT_EQ(check_results(testing::TempDir()).error().message,
            "OUT " + testing::TempDir() + " is there and is no file");
}

TEST(BatchFile, AFileThatIsNotThereHasNothingDone) {
  const auto done = keep_done(testing::TempDir() + "no-such-file.jsonl");
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->empty());
}

}  // namespace
}  // namespace quire
