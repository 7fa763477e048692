// The web page's files, part of the program (src/serve/page). Any thread.
#pragma once
#include <span>
#include <string_view>

namespace quire {

struct PageFile {
  std::string_view name, text;
};
std::span<const PageFile> page_files();

}  // namespace quire
