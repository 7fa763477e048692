// A whole answer as what it is made of, turned into bytes a piece at a time: nobody holds the text of a large answer,
// and writing some of it never takes long. One thread at a time (io).
#pragma once
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace quire {

// What stands between the quotes of a JSON string.
void append_json_text(std::string& out, std::string_view text);

class Pieces {
 public:
  // Appends item i of a list. Called once for each, in order; destroyed with the list's last byte.
  using Item = std::function<void(size_t i, std::string& out)>;

  Pieces& add(std::string_view text);
  // n items, commas between them.
  Pieces& add_list(size_t n, Item item);
  // A JSON string; `text` lies in what `owner` keeps.
  Pieces& add_json_string(std::string_view text, std::shared_ptr<const void> owner);
  // What stands between its quotes.
  Pieces& add_json_text(std::string_view text, std::shared_ptr<const void> owner);

  // `fn` hears the whole when it is written, unless it is longer than max_bytes.
  void when_written(int64_t max_bytes, std::function<void(std::string whole)> fn);

  bool done() const { return parts_.empty(); }
  // Appends until `out` has n_bytes or everything is written; the last item may be longer.
  void write(size_t n_bytes, std::string& out);

 private:
  struct Part {
    std::string text;  // comes first
    size_t n = 0, next = 0;
    bool commas = false;
    Item item;
  };
  void keep(std::string_view written);

  std::deque<Part> parts_;
  int64_t max_kept_bytes_ = 0;
  std::string kept_;
  std::function<void(std::string)> when_written_;
};

}  // namespace quire
