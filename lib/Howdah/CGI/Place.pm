package Howdah::CGI::Place;
use v5.16;
use warnings;

use Cwd ();
use File::Basename ();
use File::Spec ();
use Howdah::XS ();

# A mount: a directory of scripts, or one script.
sub new {
    my ($class, %given) = @_;
    my $mount = ($given{mount} // '') =~ s{/+\z}{}r;
    -e $given{root} or die "$given{root}: $!\n";
    return bless {
        mount => $mount,
        root  => File::Spec->rel2abs($given{root}), # as it is called: releases may be links, which lead elsewhere later
        index => $given{index} // [],
        one   => scalar -f $given{root},
        known => {},
    }, $class;
}

sub root { return $_[0]{root} }

# Where the scripts lie.
sub directory { return $_[0]{one} ? File::Basename::dirname($_[0]{root}) : $_[0]{root} }

# {name, file, version} of the script for a path, and its PATH_INFO; or a status and a reason.
sub find {
    my ($self, $path) = @_;
    my $known = $self->{known}{$path};
    return $self->_check($known->{file}, $path, '') if $known;
    my $rest = $path =~ s/\A\Q$self->{mount}\E(?=\/|\z)//r;
    return (undef, 404, 'the path is not below that of the mount')
        if length $rest == length $path && length $self->{mount};
    return (undef, 404, 'the path has a NUL') if $rest =~ /\0/;
    return (undef, 403, 'the path has a ".."') if $rest =~ m{(?:\A|/)\.\.(?:/|\z)};
    return $self->{one} ? $self->_check($self->{root}, $self->{mount}, $rest) : $self->_search($rest);
}

# All files that could be scripts, for whoever wants them beforehand.
sub scripts {
    my $self  = shift;
    my @found = $self->{one} ? $self->{root} : ();
    my @todo  = $self->{one} ? () : $self->{root};
    while (my $dir = shift @todo) {
        opendir my $handle, $dir or next;
        for my $name (sort grep { !/\A\./ } readdir $handle) {
            my $file = "$dir/$name";
            if (-d $file) { push @todo, $file if !-l $file }
            elsif (-f _ && -x _) { push @found, $file }
        }
    }
    return @found;
}

# The longest prefix of the path that is a file is the first one on the way down.
sub _search {
    my ($self, $rest) = @_;
    my ($file, $name) = ($self->{root}, $self->{mount});
    while ($rest =~ m{\G/+([^/]+)}gc) {
        my $segment = $1;
        ($file, $name) = ("$file/$segment", "$name/$segment");
        my $behind = pos $rest;
        return $self->_check($file, $name, substr $rest, $behind) if $self->{known}{$name};
        return (undef, 403, "$file is hidden") if $segment =~ /\A\./;
        my @refused = $self->_enter($file, $name);
        return (undef, @refused) if @refused;
        return $self->_check($file, $name, substr $rest, $behind) if !-d _;
    }
    for my $index (@{$self->{index}}) { return $self->_check("$file/$index", "$name/$index", '') if -e "$file/$index" }
    my $way_out = @{$self->{index}} ? 'and it has no index script' : 'see --cgi-index';
    return (undef, 403, "$file is a directory; $way_out");
}

# Looks at a file on the way, the target of a symbolic link; status and reason when it must not be entered. The path $name stands
# for it.
sub _enter {
    my ($self, $file, $name) = @_;
    return _refusal($file) if !lstat $file;
    if (-l _) {
        my ($real, $root) = map { Cwd::realpath($_) } $file, $self->{root};
        my $way_out = "give it a mount of its own, --cgi $name=$file";
        return (403, "$file is a symbolic link out of the directory: $way_out")
            if defined $real && defined $root && $real ne $root && index $real, $root =~ s{/?\z}{/}r;
        return _refusal($file) if !stat $file;
    }
    return;
}

sub _check {
    my ($self, $file, $name, $info) = @_;
    my $version = Howdah::XS::file_version($file) // return (undef, _refusal($file));
    my $known   = $self->{known}{$name};
    if (!$known || $known->{version} ne $version) {
        delete $self->{known}{$name};
        my @refused = $self->{one} ? () : $self->_enter($file, $name);
        return (undef, @refused) if @refused;
        return (undef, 403, "$file is not a regular file") if !-f $file;
        return (undef, 403, "$file is not executable: see chmod +x") if !-x _;
        $known = $self->{known}{$name} = {name => $name, file => $file, version => $version};
    }
    return ($known, $info);
}

sub _refusal {
    my $file   = shift;
    my $status = $!{ENOENT} || $!{ENOTDIR} || $!{ENAMETOOLONG} ? 404 : $!{EACCES} ? 403 : 503;
    return ($status, "$file: $!");
}

1;

__END__

=encoding utf-8

=head1 NAME

Howdah::CGI::Place - a path becomes a CGI script, or a refusal

=head1 SYNOPSIS

  my $place = Howdah::CGI::Place->new(root => '/srv/cgi', mount => '/cgi-bin', index => ['index.cgi']);
  my ($script, $path_info) = $place->find('/cgi-bin/a.cgi/path/info');
  my (undef, $status, $reason) = $place->find('/cgi-bin/.hidden');

=head1 DESCRIPTION

By the rules of F<crates/cgi/src/place.rs>: hidden names, C<..>, symbolic links out of the directory, files that are not
regular or not executable are refused.

=head2 new(root => DIRECTORY or FILE, mount => PATH, index => \@names)

C<index> has the names of scripts that answer for a directory.

=head2 find($path)

C<$path> is decoded and begins with the mount's. A script that was found before costs one C<stat>; its C<version> differs when
it has changed.

=head2 root, directory

What is mounted, and where the scripts lie.

=head2 scripts

The names of all files that could be asked for.

=cut
