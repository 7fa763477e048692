// For tests only: answers that two servers give, one behind the other. Whatever the mark behind which the first is
// left, the client is told what one server alone would have told.
#pragma once
#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "serve/handover.h"
#include "serve/testing.h"

namespace quire {

inline constexpr const char* kHandoverTemplate =
    "{% for m in messages %}[{{ m.role }}]{{ m.content }}</s>{% endfor %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}";

struct Teller : TestServer {
  Teller(uint64_t seed, std::string reply, int64_t unread_bytes = ServeLimits().unread_bytes) {
    options.limits.unread_bytes = unread_bytes;
    TokenizerSpec spec = tiny_spec();
    spec.chat_template = kHandoverTemplate;
    for (const char* mark : {"<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"}) {
      spec.tokens.emplace_back(mark);
      spec.types.push_back(TokenType::control);
      spec.scores.push_back(-1.0F);
    }
    tokenizer = tiny_tokenizer(spec);
    options.random = counted_random(seed);
    engine.step_us = 500;  // so that an answer comes in portions
    engine.script = [reply = std::move(reply)](const Request& r) {
      std::vector<Token> out = reply.empty() ? FakeEngine::default_script(r) : byte_tokens(reply);
      out.push_back(2);
      return out;
    };
    start();
  }
};

// A stream with its marks, as a router reads it.
struct Portions {
  struct Portion {
    std::string events;  // up to its mark
    std::string mark;    // "5,17 20", "end 20 1 7"
  };
  std::vector<Portion> list;
  std::string rest;  // behind the last mark
  std::string ticket;
  int status = 0;
};

inline Portions read_portions(const HttpResponse& response) {
  Portions out;
  out.status = response.status;
  if (const std::string* ticket = response.header(kHandoverHeader)) out.ticket = *ticket;
  constexpr std::string_view kMark = ": handover ";
  const std::string_view body = response.body;
  size_t from = 0;
  for (size_t at = body.find(kMark); at != std::string_view::npos; at = body.find(kMark, from)) {
    const size_t mark = at + kMark.size(), end = body.find('\n', mark);
    out.list.push_back({std::string(body.substr(from, at - from)), std::string(body.substr(mark, end - mark))});
    from = end + (body.substr(end).starts_with("\n\n") ? 2 : 1);
  }
  out.rest = body.substr(from);
  return out;
}

// What a router remembers of marks.
struct SoFar {
  struct Choice {
    std::string ids, told;
    bool over = false;
  };
  std::map<int, Choice> choices;
  std::string n_events, past;

  void add(const std::string& mark) {
    if (mark.starts_with("past ")) {
      const size_t list = mark.find(' ', 5);
      n_events = mark.substr(5, list - 5);
      past = mark.substr(list + 1);
      return;
    }
    std::istringstream rest(mark.substr(mark.find(' ')));
    const std::string ids = mark.substr(0, mark.find(' '));
    std::string told;
    int index = 0;
    rest >> told >> index >> n_events;
    Choice& choice = choices[index];
    choice.over = ids == "end";
    choice.told = told;
    if (choice.over || ids.empty()) return;
    choice.ids += (choice.ids.empty() ? "" : ",") + ids;
  }
  // The request, to who goes on.
  std::string behind(const std::string& body, const std::string& ticket) const {
    std::string out = R"({"handover":{"ticket":")" + ticket + R"(","choices":[)";
    const int n = choices.empty() ? 0 : choices.rbegin()->first + 1;
    for (int i = 0; i < n; ++i) {
      if (i > 0) out += ',';
      const auto it = choices.find(i);
      if (it == choices.end())
        out += "{}";
      else
        out += "{\"tokens\":[" + it->second.ids + "],\"told_bytes\":" + it->second.told +
               (it->second.over ? ",\"over\":true}" : "}");
    }
    out += ']';
    if (!n_events.empty()) out += ",\"n_events\":" + n_events;
    if (!past.empty()) out += ",\"past\":" + past;
    return out + "}," + body.substr(1);
  }
};

inline std::string behind(const std::string& body,
                          const std::string& ticket,
                          const std::string& ids,
                          const std::string& told) {
  SoFar so_far;
  so_far.choices[0] = {ids, told, false};
  return so_far.behind(body, ticket);
}

// All that a client is told of a choice, whatever the pieces.
inline std::string said_of(int index, const std::string& events) {
  std::string content, reasoning, calls, names, arguments, logprobs, of_tokens, offsets, heads, ends;
  const auto add = [](std::string& to, const Json& value) {
    if (value.as_string() != nullptr) to += *value.as_string();
  };
  for (size_t at = 0; at < events.size();) {
    const size_t end = events.find("\n\n", at);
    const std::string data = events.substr(at + 6, end - at - 6);
    at = end + 2;
    if (data == "[DONE]") {
      ends += data;
      continue;
    }
    const Json chunk = parse_json(data);
    const std::string head =
        text_at(json_at(chunk, "id")) + " " + json_at(chunk, "created").dump() + " " + text_at(json_at(chunk, "model"));
    if (heads.find(head) == std::string::npos) heads += head + "\n";
    const Json choice = json_at(chunk, "choices", 0);
    if (const Json of = json_at(choice, "index"); of.as_int() != nullptr && *of.as_int() != index) continue;
    add(content, json_at(choice, "text"));
    add(content, json_at(choice, "delta", "content"));
    add(reasoning, json_at(choice, "delta", "reasoning_content"));
    if (json_at(choice, "delta", "role").as_string() != nullptr) ends += "role ";
    for (const Json& call : list_of(json_at(choice, "delta", "tool_calls"))) {
      add(calls, json_at(call, "id"));
      add(names, json_at(call, "function", "name"));
      add(arguments, json_at(call, "function", "arguments"));
    }
    for (const Json& one : list_of(json_at(choice, "logprobs", "content"))) logprobs += one.dump();
    for (const Json& one : list_of(json_at(choice, "logprobs", "tokens"))) logprobs += one.dump();
    for (const Json& one : list_of(json_at(choice, "logprobs", "token_logprobs"))) of_tokens += one.dump() + " ";
    for (const Json& one : list_of(json_at(choice, "logprobs", "text_offset"))) offsets += one.dump() + " ";
    add(ends, json_at(choice, "finish_reason"));
    if (chunk.find("__verbose") != nullptr) ends += "verbose ";
    if (json_at(chunk, "usage", "prompt_tokens").as_int() != nullptr) ends += json_at(chunk, "usage").dump();
  }
  std::string out;
  for (const std::string& part :
       {heads, content, reasoning, calls, names, arguments, logprobs, of_tokens, offsets, ends})
    out += part + "\n";
  return out;
}

inline std::string said(const std::string& events) {
  std::string out;
  for (int i = 0; i < 6; ++i) out += said_of(i, events);
  return out;
}

// The same of a response's events, which are numbered.
inline std::string said_by_response(const std::string& events) {
  std::string out;
  int64_t n = 0;
  for (size_t at = events.find("data: "); at != std::string::npos; at = events.find("data: ", at)) {
    Json data = parse_json(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    at += 6;
    EXPECT_EQ(data.find("sequence_number")->dump(), std::to_string(n++));
    data.set("sequence_number", nullptr);
    const Json delta = json_at(data, "delta");
    out += delta.as_string() != nullptr ? *delta.as_string() : "\n" + data.dump() + "\n";
  }
  return out;
}

// The same of Anthropic's events. What was found in a cache is the last server's alone to know.
inline std::string said_by_messages(const std::string& events) {
  std::string out;
  for (size_t at = events.find("data: "); at != std::string::npos; at = events.find("data: ", at)) {
    const Json data = parse_json(events.substr(at + 6, events.find("\n\n", at) - at - 6));
    at += 6;
    const std::string type = text_at(json_at(data, "type"));
    if (type == "content_block_delta") {
      for (const char* text : {"text", "thinking", "partial_json"})
        if (const Json piece = json_at(data, "delta", text); piece.as_string() != nullptr) out += *piece.as_string();
    } else if (type == "message_delta") {
      out += json_at(data, "delta").dump() + json_at(data, "usage", "output_tokens").dump();
    } else {
      out += "\n" + data.dump() + "\n";
    }
  }
  return out;
}

// The same of Ollama's lines.
inline std::string said_by_lines(const std::string& lines) {
  std::string content, thinking, calls, ends;
  for (size_t at = 0; at < lines.size(); at = lines.find('\n', at) + 1) {
    const Json line = parse_json(lines.substr(at, lines.find('\n', at) - at));
    const Json* message = line.find("message");
    const Json text = message != nullptr ? json_at(*message, "content") : json_at(line, "response");
    if (text.as_string() != nullptr) content += *text.as_string();
    if (message != nullptr) {
      const Json thought = json_at(*message, "thinking");
      if (thought.as_string() != nullptr) thinking += *thought.as_string();
      calls += json_at(*message, "tool_calls").dump();
    }
    if (line.find("done")->as_bool() != nullptr && *line.find("done")->as_bool())
      for (const char* field : {"done_reason", "prompt_eval_count", "eval_count", "context"})
        ends += json_at(line, field).dump() + " ";
  }
  std::string told;  // of lines without calls nothing
  for (size_t at = 0; at < calls.size(); ++at)
    if (calls.compare(at, 4, "null") == 0)
      at += 3;
    else
      told += calls[at];
  return content + "\n" + thinking + "\n" + told + "\n" + ends;
}

// The same of events that bring tokens: llama.cpp's, and those of /generate. Times are of one server alone.
inline std::string said_by_tokens(const std::string& events) {
  std::map<std::string, std::string> choices;
  std::string heads, ends;
  for (size_t at = events.find("data: "); at != std::string::npos; at = events.find("data: ", at)) {
    const std::string data = events.substr(at + 6, events.find("\n\n", at) - at - 6);
    at += 6;
    if (data == "[DONE]") {
      ends += data;
      continue;
    }
    Json event = parse_json(data);
    if (const Json* id = event.find("id"); id != nullptr && heads.find(id->dump()) == std::string::npos)
      heads += id->dump() + "\n";
    const std::string choice = json_at(event, "index").dump() + " ";
    for (const char* text : {"content", "text"})
      if (const Json piece = json_at(event, text); piece.as_string() != nullptr) choices[choice] += *piece.as_string();
    for (const char* list : {"tokens", "output_ids", "completion_probabilities", "logprobs"})
      for (const Json& one : list_of(json_at(event, list))) choices[choice + list] += one.dump() + " ";
    const bool is_last = json_at(event, "stop") == Json(true) || event.find("usage") != nullptr ||
                         json_at(event, "finish_reason").as_string() != nullptr;
    if (!is_last) continue;
    for (const char* of_server : {"timings", "tokens_cached", "text", "output_ids", "logprobs"})
      event.set(of_server, nullptr);
    // Which of several choices is over first is a matter of the moment, as whose text comes first.
    (event.find("index") != nullptr ? choices[choice + "end"] : ends) += event.dump() + "\n";
  }
  std::string out = heads;
  for (const auto& [name, text] : choices) out += name + ": " + text + "\n";
  return out + ends;
}

struct Dialect {
  std::string (*said)(const std::string& events);
  const char* end;  // a part of its last event
};
inline constexpr Dialect kOpenai{&said, "[DONE]"}, kAnthropic{&said_by_messages, "message_stop"},
    kOllama{&said_by_lines, "\"done\":true"}, kResponses{&said_by_response, "response.completed"},
    kCut{&said_by_response, "response.incomplete"}, kLlama{&said_by_tokens, "\"stop\":true"},
    kTokens{&said_by_tokens, "[DONE]"};

// Behind every mark; how many there are.
inline size_t expect_one_answer(const Teller& first,
                                const Teller& second,
                                const std::string& path,
                                const std::string& body,
                                const Dialect& dialect) {
  const HttpHeaders router{{std::string(kHandoverHeader), "1"}};
  const Portions whole = read_portions(first.post(path, body, router));
  EXPECT_EQ(whole.status, 200) << whole.rest;
  EXPECT_NE(whole.ticket, "");
  std::string all;
  for (const auto& portion : whole.list) all += portion.events;
  all += whole.rest;
  EXPECT_NE(all.find(dialect.end), std::string::npos) << all;
  std::string events;
  SoFar so_far;
  for (const auto& portion : whole.list) {
    events += portion.events;
    so_far.add(portion.mark);
    const std::string going_on = so_far.behind(body, whole.ticket);
    const Portions more = read_portions(second.post(path, going_on, router));
    EXPECT_EQ(more.status, 200) << more.rest;
    EXPECT_EQ(more.ticket, whole.ticket);
    std::string joined = events;
    SoFar again = so_far;
    for (const auto& next : more.list) {
      joined += next.events;
      again.add(next.mark);
    }
    EXPECT_EQ(dialect.said(joined + more.rest), dialect.said(all)) << going_on;
    EXPECT_EQ(again.behind(body, "t").find(",,"), std::string::npos);
  }
  return whole.list.size();
}

inline size_t expect_one_answer(const std::string& path,
                                const std::string& body,
                                const std::string& reply = "",
                                const Dialect& dialect = kOpenai) {
  const Teller first(1, reply), second(2, reply);
  return expect_one_answer(first, second, path, body, dialect);
}

inline std::string chat(const std::string& fields) {
  return R"({"stream":true,"messages":[{"role":"user","content":"x"}])" + fields + "}";
}
inline std::string completion(const std::string& fields) {
  return R"({"stream":true,"prompt":"x","max_tokens":200)" + fields + "}";
}

}  // namespace quire
