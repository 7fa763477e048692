// What an answer is made of: a stream of typed parts, in the order in which the model wrote them. Parsers make it of
// the answer's text, writers turn it into a dialect's form. Pieces of one part come joined where they meet, so that the
// parts of a whole answer are the same however it was cut. Plain data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

// A call is a part with its tool's name, then parts with pieces of its arguments: JSON, as the model wrote it.
enum class PartKind : uint8_t { reasoning, text, call, arguments };

struct AnswerPart {
  PartKind kind = PartKind::text;
  std::string text;  // whole code points, but of arguments
  int call = 0;      // of a call and its arguments: which one, from 0

  bool operator==(const AnswerPart&) const = default;
};

class AnswerParts {
 public:
  // Nothing where `text` is empty; joined to the last part where that is of the kind.
  void add(PartKind kind, std::string_view text);
  // The call begins. Its arguments: as add.
  void add_call(int call, std::string_view name) { list_.push_back({PartKind::call, std::string(name), call}); }
  void add_arguments(int call, std::string_view text);
  // Leaves `more` empty.
  void append(AnswerParts& more);
  void clear() { list_.clear(); }

  bool empty() const { return list_.empty(); }
  bool has(PartKind kind) const;
  std::string joined(PartKind kind) const;  // the texts of all parts of the kind
  int64_t bytes() const;                    // of all texts
  auto begin() const { return list_.begin(); }
  auto end() const { return list_.end(); }

  bool operator==(const AnswerParts&) const = default;

 private:
  void add(PartKind kind, std::string_view text, int call);

  std::vector<AnswerPart> list_;  // neighbours of one kind are of different calls
};

}  // namespace quire
