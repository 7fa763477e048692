#include "app/config_file.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(ConfigFile, ReadsKeysSectionsAndComments) {
  const auto entries = parse_config("# all\nthreads = 2\r\n\n [serve] \nport=9000\n alias = \" a \"\nempty =");
  ASSERT_TRUE(entries) << entries.error().message;
  std::string all;
  for (const ConfigEntry& e : *entries)
    all += std::to_string(e.line) + "[" + e.section + "]" + e.key + "=" + e.value + ";";
  EXPECT_EQ(all, "2[]threads=2;5[serve]port=9000;6[serve]alias= a ;7[serve]empty=;");
}

TEST(ConfigFile, NamesTheLineThatIsNone) {
  EXPECT_EQ(parse_config("a = 1\nb\n").error().message, "line 2: no \"key = value\"");
  EXPECT_EQ(parse_config("= 1").error().message, "line 1: no \"key = value\"");
  EXPECT_EQ(read_config("/nowhere").error().message, "--config: /nowhere: cannot be read");
}

TEST(ConfigFile, IsReadUpToALimit) {
  const auto endless = read_config("/dev/zero");
  ASSERT_FALSE(endless);
  EXPECT_EQ(endless.error().code, Code::invalid);
  EXPECT_EQ(endless.error().message, "--config: /dev/zero has more than 1048576 bytes");
}

TEST(ConfigFile, TheNearestNameIsSuggested) {
  const std::vector<std::string> names = {"max-tokens", "max-seqs", "seed", "n"};
  EXPECT_EQ(nearest("max-tokenz", names), "max-tokens");
  EXPECT_EQ(nearest("max_seqs", names), "max-seqs");
  EXPECT_EQ(nearest("sed", names), "seed");
  EXPECT_EQ(nearest("sede", names), "seed");
  EXPECT_EQ(nearest("esed", names), "seed");
  EXPECT_EQ(nearest("colour", names), "");
  EXPECT_EQ(nearest("", names), "n");
  EXPECT_EQ(nearest("x", {}), "");
}

}  // namespace
}  // namespace quire
