#include "service/controller/page/report_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace longhaul::service {
namespace {

using nlohmann::ordered_json;
using ::testing::HasSubstr;
using ::testing::Not;

size_t CountOf(const std::string& text, const std::string& part) {
  size_t count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++count;
  return count;
}

TEST(ReportPage, KeepsHostileTextsInsideTheirElements) {
  const std::string bad = "</script><script>alert(1)</script><!-- \x80\xff";
  const std::string page = ReportPage("</title>" + bad, {{"what", bad}});
  EXPECT_EQ(CountOf(page, "<script"), 3u) << "the data, the licences and the page";
  EXPECT_EQ(CountOf(page, "</script>"), 3u);
  EXPECT_EQ(CountOf(page, "</title>"), 1u);
  EXPECT_THAT(page, Not(HasSubstr("<!--")));
  const std::string head = "id=\"report\">";
  const size_t begin = page.find(head) + head.size();
  const auto data = ordered_json::parse(page.substr(begin, page.find("</script>", begin) - begin));
  EXPECT_THAT(data["what"].get<std::string>(), HasSubstr("</script><script>alert(1)</script><!--"));
}

TEST(ReportPage, LoadsNothing) {
  const std::string page = ReportPage("run", ordered_json::object());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, Not(HasSubstr("<link")));
  EXPECT_THAT(page, Not(HasSubstr(" src=\"")));
  EXPECT_THAT(page, Not(HasSubstr("@import")));
}

}  // namespace
}  // namespace longhaul::service
