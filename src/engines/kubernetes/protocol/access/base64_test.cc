#include "engines/kubernetes/protocol/access/base64.h"

#include <gtest/gtest.h>

namespace longhaul::engines::kubernetes {
namespace {

// The bytes of RFC 4648, section 9, and all 64 characters.
TEST(Base64Url, HasOneTextForEachSequenceOfBytes) {
  const std::pair<std::string, std::string> kRows[] = {
      {"", ""},           {"f", "Zg"},          {"fo", "Zm8"},          {"foo", "Zm9v"},
      {"foob", "Zm9vYg"}, {"fooba", "Zm9vYmE"}, {"foobar", "Zm9vYmFy"}, {"\xFB\xFF\xBF", "-_-_"}};
  for (const auto& [bytes, text] : kRows) {
    EXPECT_EQ(EncodeBase64Url(bytes), text);
    EXPECT_EQ(DecodeBase64Url(text), bytes);
  }
  std::string all;
  for (int i = 0; i < 256; ++i) all.push_back(static_cast<char>(i));
  EXPECT_EQ(DecodeBase64Url(EncodeBase64Url(all)), all);
}

TEST(Base64Url, RefusesOtherTexts) {
  for (const char* text : {"Z", "Zg=", "Zg==", "Zh", "Zm9", "Zm9v=", "Zm9vY", "Zm 8", "Zm8\n",
                           " Zg", "+_-_", "/_-_", "Zm9v.Zm9v", "=", "====", "\xC3\xA4"}) {
    EXPECT_EQ(DecodeBase64Url(text), std::nullopt) << text;
  }
  EXPECT_EQ(DecodeBase64Url(std::string("Zm9v\0", 5)), std::nullopt);
}

}  // namespace
}  // namespace longhaul::engines::kubernetes
