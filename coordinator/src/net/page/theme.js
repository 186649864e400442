// The theme that the user chose, before anything is drawn.
document.documentElement.dataset.theme = localStorage.getItem("buildpool.theme") ?? "auto";
