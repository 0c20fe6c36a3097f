// A unit-test harness in one page. A test is
//
//   TEST(LayoutSizeCountsEveryCoordinate) { CHECK_EQ(layout.size(), 6); }
//
// and every .cc file of a suite's folder is linked with main.cc, which runs all tests whose name
// contains the first command-line argument. A test without a single check fails.
#ifndef TILELANG_TESTING_CPP_CHECK_H_
#define TILELANG_TESTING_CPP_CHECK_H_

#include <sstream>
#include <string>
#include <vector>

namespace tilelang::testing {

struct Test {
  const char* name;
  void (*body)();
};

inline std::vector<Test>& Tests() {
  static std::vector<Test> tests;
  return tests;
}

struct Registration {
  Registration(const char* name, void (*body)()) { Tests().push_back({name, body}); }
};

// Counts a check; a failed one is printed with its place and `what`.
void Record(bool passed, const char* file, int line, const std::string& what);

template <typename A, typename B>
void CheckEqual(const A& actual, const B& expected, const char* text, const char* file, int line) {
  std::ostringstream what;
  const bool equal = actual == expected;
  if (!equal) what << text << " is " << actual << ", expected " << expected;
  Record(equal, file, line, what.str());
}

template <typename Error, typename Body>
void CheckThrows(Body body, const std::string& part, const char* file, int line) {
  try {
    body();
    Record(false, file, line, "nothing thrown; expected an error with '" + part + "'");
  } catch (const Error& error) {
    const std::string message = error.what();
    const bool found = message.find(part) != std::string::npos;
    Record(found, file, line, "message '" + message + "' lacks '" + part + "'");
  }
}

}  // namespace tilelang::testing

#define TEST(Name)                                                                 \
  static void Test##Name();                                                        \
  static const tilelang::testing::Registration register_##Name(#Name, Test##Name); \
  static void Test##Name()
#define CHECK(condition) \
  tilelang::testing::Record(static_cast<bool>(condition), __FILE__, __LINE__, #condition)
#define CHECK_EQ(actual, expected) \
  tilelang::testing::CheckEqual(actual, expected, #actual, __FILE__, __LINE__)
// The statement throws Error (or a class derived from it) and its message contains `part`.
#define CHECK_THROWS(statement, Error, part) \
  tilelang::testing::CheckThrows<Error>([&] { statement; }, part, __FILE__, __LINE__)

#endif  // TILELANG_TESTING_CPP_CHECK_H_
