// Which tokens were guessed ahead, told to who asks: where their text lies, streamed and whole.
#include "serve/code_points.h"
#include "serve/testing.h"

namespace quire {
namespace {

constexpr int kEvery = 3;
const std::string kText = "caf\u00e9 \u4e2d\u6587 \U0001F600 end";

void answer_guessed(TestServer& s, int tokens_per_step) {
  s.engine.script = [](const Request&) { return byte_tokens(kText); };
  s.engine.tokens_per_step = tokens_per_step;
  s.engine.accepted_every = kEvery;
  s.start();
}

// What an answer of a token a byte says of its first n_bytes, behind so much text before it.
std::string places(size_t n_bytes, int64_t n_before = 0) {
  std::string out;
  const auto n_points = [&](size_t n) {
    const bool cut = n < kText.size() && (kText[n] & 0xc0) == 0x80;  // its last code point is not whole
    return count_points(kText.substr(0, n)) - (cut ? 1 : 0);
  };
  for (size_t i = kEvery - 1; i < n_bytes; i += kEvery) {
    const int64_t at = n_points(i), n = n_points(i + 1) - at;
    out += (out.empty() ? "" : ",") + ("{\"text_offset\":" + std::to_string(n_before + at)) +
           ",\"length\":" + std::to_string(n) + "}";
  }
  return "[" + out + "]";
}

std::string body_of(bool chat, const std::string& more) {
  return (chat ? R"({"messages":[{"role":"user","content":"x"}],"max_tokens":99)"
               : R"({"prompt":"x","max_tokens":99)") +
         more + "}";
}

TEST(Accepted, IsToldWhereItIsAskedFor) {
  TestServer s;
  answer_guessed(s, 1);
  for (const bool chat : {false, true}) {
    const std::string path = chat ? "/v1/chat/completions" : "/v1/completions";
    for (const char* more : {"", R"(,"return_accepted":false)", R"(,"return_accepted":null)"}) {
      const std::string plain = s.post(path, body_of(chat, more)).body;
      EXPECT_EQ(plain.find("accepted"), std::string::npos) << plain;
      EXPECT_EQ(plain.find("text_length"), std::string::npos) << plain;
    }
    const Json choice =
        json_at(parse_json(s.post(path, body_of(chat, R"(,"return_accepted":true)")).body), "choices", 0);
    EXPECT_EQ(json_at(choice, "accepted").dump(), places(kText.size())) << path;
    EXPECT_EQ(int_at(json_at(choice, "text_length")), count_points(kText));
    EXPECT_TRUE(json_at(choice, "logprobs").is_null()) << "nobody asked for these";
    const HttpResponse wrong = s.post(path, body_of(chat, R"(,"return_accepted":1)"));
    EXPECT_EQ(wrong.status, 400);
    EXPECT_EQ(text_at(json_at(parse_json(wrong.body), "error", "param")), "return_accepted");
  }
}

TEST(Accepted, AStreamSaysWhatTheWholeAnswerSays) {
  for (const int tokens_per_step : {1, 4, 64}) {
    TestServer s;
    answer_guessed(s, tokens_per_step);
    for (const bool chat : {false, true}) {
      const auto events = s.stream(chat ? "/v1/chat/completions" : "/v1/completions",
                                   body_of(chat, R"(,"return_accepted":true,"stream":true)"));
      std::string list;
      int64_t end = 0;
      for (const SseEvent& e : events.list) {
        if (e.data == "[DONE]") continue;
        const Json choice = json_at(parse_json(e.data), "choices", 0);
        for (const Json& place : list_of(json_at(choice, "accepted"))) list += (list.empty() ? "" : ",") + place.dump();
        if (choice.find("text_length") == nullptr) continue;
        const Json text = chat ? json_at(choice, "delta", "content") : json_at(choice, "text");
        end += text.as_string() != nullptr ? count_points(*text.as_string()) : 0;
        EXPECT_EQ(int_at(json_at(choice, "text_length")), end) << "the chunk's text is the last of it";
      }
      EXPECT_EQ("[" + list + "]", places(kText.size()));
      EXPECT_EQ(end, count_points(kText));
    }
  }
}

TEST(Accepted, CountsFromTheEchoAndEndsWithTheText) {
  TestServer s;
  answer_guessed(s, 1);
  const auto asked = [&](const char* more) {
    return json_at(parse_json(s.post("/v1/completions", body_of(false, more)).body), "choices", 0);
  };
  EXPECT_EQ(json_at(asked(R"(,"return_accepted":true,"echo":true)"), "accepted").dump(), places(kText.size(), 1));
  const Json cut = asked(R"(,"return_accepted":true,"stop":" \u4e2d")");
  EXPECT_EQ(text_at(json_at(cut, "text")), "caf\u00e9");
  EXPECT_EQ(int_at(json_at(cut, "text_length")), 4);
  EXPECT_EQ(json_at(cut, "accepted").dump(), places(5)) << "what makes the stop string alone is no part of it";
}

TEST(Accepted, StandsBesideIds) {
  TestServer s;
  answer_guessed(s, 1);
  const Json choice = json_at(
      parse_json(s.post("/generate", R"({"input_ids":[1],"max_tokens":5,"return_accepted":true})").body), "choices", 0);
  EXPECT_EQ(json_at(choice, "accepted").dump(), "[false,false,true,false,false]");
  const auto events = s.stream("/generate", R"({"input_ids":[1],"max_tokens":5,"return_accepted":true,"stream":true})");
  std::string list;
  for (const SseEvent& e : events.list)
    if (e.data != "[DONE]")
      for (const Json& one : list_of(json_at(parse_json(e.data), "accepted"))) list += one.dump() + " ";
  EXPECT_EQ(list, "false false true false false ");
  EXPECT_EQ(s.post("/generate", R"({"input_ids":[1]})").body.find("accepted"), std::string::npos);
}

}  // namespace
}  // namespace quire
