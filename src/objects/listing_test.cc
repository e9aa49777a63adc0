#include "objects/listing.h"

#include <gtest/gtest.h>

#include "base/xml.h"

namespace longhaul::objects {
namespace {

constexpr char kPage[] =
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
    "<ListBucketResult xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\n"
    "  <Name>models</Name><Prefix>run/</Prefix><KeyCount>3</KeyCount>\n"
    "  <IsTruncated>true</IsTruncated><NextContinuationToken>a+b=</NextContinuationToken>\n"
    "  <Contents><Key>run/a&amp;b &#252;&#x1F600;</Key><Size>17</Size>\n"
    "    <ETag>&quot;d41d&quot;</ETag><Owner><ID>x</ID></Owner></Contents>\n"
    "  <Contents><Key>run/empty</Key><Size>0</Size></Contents>\n"
    "  <CommonPrefixes><Prefix>run/step-000000010.e1/</Prefix></CommonPrefixes>\n"
    "  <Delimiter/>\n"
    "</ListBucketResult>\n";

TEST(ParseListing, TakesObjectsPrefixesAndWhereToGoOn) {
  const Result<Listing> listing = ParseListing(kPage);
  ASSERT_TRUE(listing.ok()) << listing.status();
  ASSERT_EQ(listing->objects.size(), 2u);
  EXPECT_EQ(listing->objects[0].key, "run/a&b \xC3\xBC\xF0\x9F\x98\x80");
  EXPECT_EQ(listing->objects[0].bytes, 17u);
  EXPECT_EQ(listing->objects[1].key, "run/empty");
  EXPECT_EQ(listing->prefixes, std::vector<std::string>{"run/step-000000010.e1/"});
  EXPECT_TRUE(listing->truncated);
  EXPECT_EQ(listing->next, "a+b=");
}

TEST(ParseListing, EveryCutIsFound) {
  const std::string page = kPage;
  const size_t end = page.rfind('>');
  for (size_t cut = 0; cut < end; ++cut) {
    EXPECT_FALSE(ParseListing(page.substr(0, cut)).ok()) << "cut at " << cut;
  }
}

TEST(ParseListing, RefusesWhatItDoesNotKnow) {
  for (const char* xml : {
           "",
           "text",
           "<Error><Code>NoSuchBucket</Code></Error>",
           "<!DOCTYPE x [<!ENTITY e \"e\">]><ListBucketResult/>",
           "<ListBucketResult><Contents><Key>a</Key></Contents></ListBucketResult>",
           "<ListBucketResult><Contents><Size>1</Size></Contents></ListBucketResult>",
           "<ListBucketResult><Contents><Key>a</Key><Size>-1</Size></Contents></ListBucketResult>",
           "<ListBucketResult><Contents><Key>&e;</Key><Size>1</Size></Contents></ListBucketResult>",
           "<ListBucketResult><Contents><Key>\xFF</Key><Size>1</Size></Contents>"
           "</ListBucketResult>",
           "<ListBucketResult></Other>",
           "<ListBucketResult/><ListBucketResult/>",
           "<ListBucketResult><IsTruncated>true</IsTruncated></ListBucketResult>",
           "<a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a><a>",
       }) {
    EXPECT_EQ(ParseListing(xml).status().code(), Code::kDataLoss) << xml;
  }
}

TEST(ParseListing, ATextHasALimit) {
  const std::string key(10'000, 'k');
  EXPECT_FALSE(ParseListing("<ListBucketResult><Contents><Key>" + key +
                            "</Key><Size>1</Size></Contents></ListBucketResult>")
                   .ok());
}

TEST(TextOf, GivesTheFirstOfItsName) {
  EXPECT_EQ(*TextOf("<Error><Code>Slow&lt;Down</Code><Code>b</Code></Error>", "Code"), "Slow<Down");
  EXPECT_FALSE(TextOf("<Error/>", "Code").ok());
}

TEST(XmlEscape, ReadsBackAsItWas) {
  const std::string text = "\"<a&b>'\"";
  EXPECT_EQ(*TextOf("<T>" + XmlEscape(text) + "</T>", "T"), text);
}

}  // namespace
}  // namespace longhaul::objects
