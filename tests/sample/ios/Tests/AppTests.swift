import XCTest

@testable import App

final class Passing: XCTestCase {
    func testThird() {
        XCTAssertEqual(third(9), 3)
    }
}

final class Failing: XCTestCase {
    func testThird() {
        XCTAssertEqual(third(9), 4, "the sample fails on purpose")
    }
}

final class Crashing: XCTestCase {
    func testThird() {
        XCTAssertEqual(third(10), 3)
    }
}
