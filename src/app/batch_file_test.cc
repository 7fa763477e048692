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
  const auto done = keep_done(path);
  ASSERT_TRUE(done) << done.error().message;
  EXPECT_EQ(*done, (std::set<std::string>{"a", "b"}));
  EXPECT_EQ(content(path), good + "\n" + refused + "\n");
  EXPECT_EQ(*keep_done(path), *done);
}

TEST(BatchFile, AFileThatIsNotThereHasNothingDone) {
  const auto done = keep_done(testing::TempDir() + "no-such-file.jsonl");
  ASSERT_TRUE(done);
  EXPECT_TRUE(done->empty());
}

}  // namespace
}  // namespace quire
