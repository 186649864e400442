//! Decides if a frame of a Java stack is in a library. Pure.

/// Packages of frameworks and the platform. Each failed assertion has their frames above and below
/// the frame of the test.
const FOREIGN: &[&str] = &[
    "java.",
    "javax.",
    "jdk.",
    "sun.",
    "com.sun.",
    "junit.",
    "org.junit.",
    "org.testng.",
    "org.hamcrest.",
    "org.assertj.",
    "org.opentest4j.",
    "org.mockito.",
    "kotlin.",
    "kotlinx.",
    "scala.",
    "android.",
    "androidx.",
    "com.android.",
    "munit.",
    "org.scalatest.",
    "org.specs2.",
    "org.spockframework.",
    "io.kotest.",
    "groovy.lang.",
    "org.codehaus.groovy.",
    "org.apache.maven.",
    "org.gradle.",
];

/// Returns true if the method of a frame belongs to a framework or the platform:
/// `org.junit.Assert.fail`. A loader and module prefix is ignored, as in `app//a.B.c` and
/// `java.base@17/java.util.List.of` (`StackTraceElement.toString`).
pub fn is_foreign(method: &str) -> bool {
    let method = method.rsplit_once('/').map_or(method, |(_, method)| method);
    FOREIGN.iter().any(|package| method.starts_with(package))
}

#[cfg(test)]
mod tests {
    use super::is_foreign;

    #[test]
    fn a_frame_is_known_by_its_package_whatever_loaded_it() {
        for foreign in
            ["org.junit.Assert.fail", "java.base@17/java.util.List.of", "app//org.testng.Assert.fail"]
        {
            assert!(is_foreign(foreign), "{foreign}");
        }
        for own in ["app.Main.run", "app//app.Main.run", "com.example.java.Main.run", "organ.Pipe.play"] {
            assert!(!is_foreign(own), "{own}");
        }
    }
}
