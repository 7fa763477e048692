// What an answer is made of: a stream of typed parts, in the order in which the model wrote them. Parsers make it of
// the answer's text, writers turn it into a dialect's form. Pieces of one part come joined where they meet, so that the
// parts of a whole answer are the same however it was cut. Plain data.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace quire {

enum class PartKind : uint8_t { reasoning, text };

struct AnswerPart {
  PartKind kind = PartKind::text;
  std::string text;  // whole code points

  bool operator==(const AnswerPart&) const = default;
};

class AnswerParts {
 public:
  // Nothing where `text` is empty; joined to the last part where that is of the kind.
  void add(PartKind kind, std::string_view text);
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
  std::vector<AnswerPart> list_;  // none empty, no neighbours of one kind
};

}  // namespace quire
