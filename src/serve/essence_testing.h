// For tests only: requests that are tried while something fails, and what an answer must be again, whatever failed in
// between. Ids, times and how many tokens an event brings are left out.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

struct Tried {
  std::string method, path, body;
};

// The same streamed and not.
inline void try_both(const std::string& path, const std::string& fields, std::vector<Tried>& out) {
  out.push_back({"POST", path, "{" + fields + R"(,"stream":false})"});
  out.push_back({"POST", path, "{" + fields + R"(,"stream":true})"});
}

// One of each dialect. `biased`: a token of the vocabulary.
inline std::vector<Tried> tried_at_every_door(int biased) {
  const std::string more = R"("seed":7,"max_tokens":12,"temperature":0.5,)";
  const std::string chat = R"("messages":[{"role":"user","content":"the cat"}])";
  std::vector<Tried> out;
  try_both("/v1/completions", more + R"("prompt":["the cat","sat"],"n":2,"logprobs":2,"stop":["zz"],"what":1)", out);
  out.push_back({"POST", "/v1/completions",
                 "{" + more + R"("prompt":"the cat","echo":true,"logprobs":1,"best_of":3,"prompt_logprobs":2,)" +
                     R"("logit_bias":{")" + std::to_string(biased) + R"(":1},"bad_words":["q"]})"});
  try_both("/v1/chat/completions", more + R"("logprobs":true,"top_logprobs":2,)" + chat, out);
  try_both("/v1/responses", R"("seed":7,"max_output_tokens":12,"top_logprobs":1,"input":"the cat")", out);
  try_both("/v1/messages", more + chat, out);
  try_both("/api/chat", chat + R"(,"options":{"seed":7,"num_predict":12})", out);
  try_both("/api/generate", R"("prompt":"the cat","options":{"seed":7,"num_predict":12})", out);
  try_both("/generate", more + R"("input_ids":[5,6,7],"logprobs":1)", out);
  try_both("/infill", more + R"("input_prefix":"a","input_suffix":"b")", out);
  out.push_back({"POST", "/v1/embeddings", R"({"input":["the cat","sat"]})"});
  return out;
}

// Such as need no model's pass, and such as are refused.
inline std::vector<Tried> tried_beside_them() {
  const std::string chat = R"({"messages":[{"role":"user","content":"the cat"}]})";
  return {{"POST", "/v1/messages/count_tokens", chat},      {"POST", "/tokenize", R"({"content":"the cat sat"})"},
          {"POST", "/detokenize", R"({"tokens":[5,6,7]})"}, {"POST", "/apply-template", chat},
          {"POST", "/v1/completions", R"({"prompt":1})"},   {"POST", "/v1/completions", R"({"prompt":)"}};
}

// The characters of a stream's texts, sorted: how many tokens an event brings is a matter of time.
inline std::string streamed_text(std::string_view body) {
  std::string out;
  for (const std::string_view key : {"\"text\":\"", "\"content\":\"", "\"delta\":\"", "\"response\":\""}) {
    for (size_t at = body.find(key); at != std::string_view::npos; at = body.find(key, at)) {
      at += key.size();
      for (; at < body.size() && body[at] != '"'; ++at) out += body[at];
    }
  }
  std::sort(out.begin(), out.end());
  return out;
}

// Ids, times and durations as '#'.
inline std::string masked(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool varies = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
    if (!varies)
      out += c;
    else if (out.empty() || out.back() != '#')
      out += '#';
  }
  return out;
}

inline std::string essence(const Tried& what, std::string_view answer) {
  if (what.path == "/metrics") return "";
  return what.body.find("\"stream\":true") != std::string::npos ? streamed_text(answer) : masked(answer);
}

}  // namespace quire
