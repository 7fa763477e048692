// Bytes for people, in decimal units as disks and networks count them. Pure, any thread.
#pragma once
#include <cstdint>
#include <string>

namespace quire {

// "1.2 GB".
std::string size_text(int64_t bytes);

}  // namespace quire
